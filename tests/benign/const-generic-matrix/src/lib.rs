//! Matrices whose size is part of their type.
use std::array::from_fn;
use std::fmt;
use std::ops::{Add, Index, IndexMut, Mul};

#[derive(Debug, Clone, Copy, PartialEq)]
struct Matrix<const R: usize, const C: usize>([[f64; C]; R]);

impl<const R: usize, const C: usize> Matrix<R, C> {
    fn from_slice(values: &[f64]) -> Option<Self> {
        (values.len() == R * C).then(|| Self(from_fn(|r| from_fn(|c| values[r * C + c]))))
    }

    fn transpose(&self) -> Matrix<C, R> {
        Matrix(from_fn(|r| from_fn(|c| self[(c, r)])))
    }
}

impl<const N: usize> Matrix<N, N> {
    const IDENTITY: Self = {
        let mut cells = [[0.0; N]; N];
        let mut i = 0;
        while i < N {
            cells[i][i] = 1.0;
            i += 1;
        }
        Self(cells)
    };

    fn trace(&self) -> f64 {
        (0..N).map(|i| self[(i, i)]).sum()
    }

    fn det(mut self) -> f64 {
        let mut det = 1.0;
        for i in 0..N {
            let Some(pivot) = (i..N).find(|r| self[(*r, i)] != 0.0) else { return 0.0 };
            if pivot != i {
                self.0.swap(pivot, i);
                det = -det;
            }
            det *= self[(i, i)];
            for r in i + 1..N {
                let factor = self[(r, i)] / self[(i, i)];
                for c in i..N {
                    let above = self[(i, c)];
                    self[(r, c)] -= factor * above;
                }
            }
        }
        det
    }
}

impl<const R: usize, const C: usize> Index<(usize, usize)> for Matrix<R, C> {
    type Output = f64;
    fn index(&self, (r, c): (usize, usize)) -> &f64 {
        &self.0[r][c]
    }
}

impl<const R: usize, const C: usize> IndexMut<(usize, usize)> for Matrix<R, C> {
    fn index_mut(&mut self, (r, c): (usize, usize)) -> &mut f64 {
        &mut self.0[r][c]
    }
}

impl<const R: usize, const K: usize, const C: usize> Mul<&Matrix<K, C>> for &Matrix<R, K> {
    type Output = Matrix<R, C>;
    fn mul(self, other: &Matrix<K, C>) -> Matrix<R, C> {
        Matrix(from_fn(|r| from_fn(|c| (0..K).map(|k| self[(r, k)] * other[(k, c)]).sum())))
    }
}

impl<const R: usize, const C: usize> Add for Matrix<R, C> {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(from_fn(|r| from_fn(|c| self[(r, c)] + other[(r, c)])))
    }
}

impl<const R: usize, const C: usize> fmt::Display for Matrix<R, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = |row: &[f64; C]| row.map(|x| x.to_string()).join(" ");
        f.write_str(&self.0.each_ref().map(row).join("; "))
    }
}

fn square<const N: usize>(values: &[f64]) -> Option<String> {
    let m = Matrix::<N, N>::from_slice(values)?;
    assert_eq!(&m * &Matrix::IDENTITY, m);
    assert_eq!((m + m).trace(), 2.0 * m.trace());
    Some(format!("det {}, transpose {}, square {}, trace {}", m.det(), m.transpose(), &m * &m, m.trace()))
}

fn oblong<const R: usize, const C: usize>(values: &[f64]) -> Option<String> {
    let m = Matrix::<R, C>::from_slice(values)?;
    Some(format!("times its transpose {}", &m * &m.transpose()))
}

fn answer(text: &str) -> Option<String> {
    let (size, values) = text.split_once(": ")?;
    let values = values.split(' ').map(|word| word.parse().ok()).collect::<Option<Vec<f64>>>()?;
    let done = match size {
        "1 1" => square::<1>(&values),
        "2 2" => square::<2>(&values),
        "3 3" => square::<3>(&values),
        "2 3" => oblong::<2, 3>(&values),
        "3 2" => oblong::<3, 2>(&values),
        other => Some(format!("a size that is not offered: {other}")),
    };
    done.or_else(|| Some(format!("{} is not {}", size.replace(' ', " times "), values.len())))
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    answer(&String::from_utf8_lossy(request)).unwrap_or_else(|| "ROWS COLUMNS: NUMBERS".to_owned()).into_bytes()
}
