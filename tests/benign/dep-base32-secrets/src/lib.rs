//! Secrets as people copy them: RFC 4648 base32 in groups of four, and Crockford's alphabet.
use base32::Alphabet;

const RFC: Alphabet = Alphabet::Rfc4648 { padding: true };

fn grouped(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    letters.chunks(4).map(|group| group.iter().collect::<String>()).collect::<Vec<_>>().join(" ")
}

fn decode(text: &str) -> Result<Vec<u8>, String> {
    let plain: String =
        text.chars().filter(|c| !c.is_whitespace() && *c != '=').map(|c| c.to_ascii_uppercase()).collect();
    base32::decode(Alphabet::Rfc4648 { padding: false }, &plain).ok_or_else(|| format!("not base32: {text}"))
}

fn answer(line: &str) -> Result<String, String> {
    let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
    match command {
        "encode" => Ok(format!(
            "{}  crockford {}",
            grouped(&base32::encode(RFC, rest.as_bytes())),
            base32::encode(Alphabet::Crockford, rest.as_bytes())
        )),
        "decode" => {
            let bytes = decode(rest)?;
            let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
            Ok(format!("{hex} ({} bytes)", bytes.len()))
        }
        other => Err(format!("unknown command {other}")),
    }
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    let line = String::from_utf8_lossy(request);
    answer(&line).unwrap_or_else(|error| error).into_bytes()
}
