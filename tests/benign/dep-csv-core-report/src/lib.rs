//! Columns of a CSV file: the mean where all fields are numbers, the fields otherwise.
use csv_core::{ReadFieldResult, Reader};
use std::mem;

fn rows(mut input: &[u8]) -> Vec<Vec<String>> {
    let mut reader = Reader::new();
    let (mut rows, mut row, mut field) = (Vec::new(), Vec::new(), Vec::new());
    // Small on purpose: fields come in parts.
    let mut buffer = [0u8; 8];
    'file: loop {
        let (result, read, written) = reader.read_field(input, &mut buffer);
        input = &input[read..];
        field.extend_from_slice(&buffer[..written]);
        match result {
            ReadFieldResult::OutputFull => continue 'file,
            // The end of input is an empty slice, which the next round passes.
            ReadFieldResult::InputEmpty => continue 'file,
            ReadFieldResult::Field { record_end } => {
                row.push(String::from_utf8_lossy(&mem::take(&mut field)).into_owned());
                if record_end {
                    rows.push(mem::take(&mut row));
                }
            }
            ReadFieldResult::End => break 'file rows,
        }
    }
}

fn report(rows: &[Vec<String>]) -> Result<String, String> {
    let [header, rows @ ..] = rows else { return Err("no header".to_owned()) };
    for (number, row) in rows.iter().enumerate() {
        if row.len() != header.len() {
            return Err(format!("row {} has {} fields instead of {}", number + 2, row.len(), header.len()));
        }
    }
    let column = |(index, name): (usize, &String)| {
        let fields: Vec<&str> = rows.iter().map(|row| &*row[index]).collect();
        match fields.iter().map(|field| field.parse::<f64>()).collect::<Result<Vec<_>, _>>() {
            Ok(numbers) if !numbers.is_empty() => {
                let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
                format!("{name}: {mean} mean of {}", numbers.len())
            }
            _ => format!("{name}: {}", fields.join(" | ")),
        }
    };
    Ok(header.iter().enumerate().map(column).collect::<Vec<_>>().join("\n"))
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    let out = report(&rows(request)).unwrap_or_else(|error| error);
    format!("{out}\n").into_bytes()
}
