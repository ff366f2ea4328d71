//! Sudoku: the cell with the fewest choices first.
#[derive(Clone)]
struct Board {
    cells: [u8; 81],
    rows: [u16; 9],
    columns: [u16; 9],
    boxes: [u16; 9],
}

const fn places(at: usize) -> (usize, usize, usize) {
    let (row, column) = (at / 9, at % 9);
    (row, column, row / 3 * 3 + column / 3)
}

fn digits(mask: u16) -> impl Iterator<Item = u8> {
    (1..=9).filter(move |digit| mask & (1 << digit) != 0)
}

impl Board {
    fn parse(text: &str) -> Result<Self, String> {
        let count = text.chars().count();
        if count != 81 {
            return Err(format!("81 cells expected, not {count}"));
        }
        let mut board = Self { cells: [0; 81], rows: [0; 9], columns: [0; 9], boxes: [0; 9] };
        for (at, c) in text.chars().enumerate() {
            match c.to_digit(10) {
                None | Some(0) if c == '.' || c == '0' => {}
                Some(digit @ 1..=9) => {
                    if board.choices(at) & (1 << digit) == 0 {
                        return Err(format!("contradiction at cell {}", at + 1));
                    }
                    board.set(at, digit as u8);
                }
                _ => return Err(format!("cell {} is neither digit nor dot", at + 1)),
            }
        }
        Ok(board)
    }

    fn choices(&self, at: usize) -> u16 {
        let (row, column, square) = places(at);
        !(self.rows[row] | self.columns[column] | self.boxes[square]) & 0b11_1111_1110
    }

    fn set(&mut self, at: usize, digit: u8) {
        let (row, column, square) = places(at);
        self.cells[at] = digit;
        for used in [&mut self.rows[row], &mut self.columns[column], &mut self.boxes[square]] {
            *used |= 1 << digit;
        }
    }

    fn solve(self) -> Option<Self> {
        let open = (0..81).filter(|at| self.cells[*at] == 0).min_by_key(|at| self.choices(*at).count_ones());
        let Some(at) = open else { return Some(self) };
        digits(self.choices(at)).find_map(|digit| {
            let mut next = self.clone();
            next.set(at, digit);
            next.solve()
        })
    }
}

fn answer(text: &str) -> Result<String, String> {
    let solved = Board::parse(text)?.solve().ok_or("no solution")?;
    Ok(solved.cells.iter().map(|digit| char::from(b'0' + digit)).collect())
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    answer(&String::from_utf8_lossy(request)).unwrap_or_else(|error| error).into_bytes()
}
