//! Pixels, and what can be made of them.

/// Red, green, blue.
pub type Pixel = [u8; 3];

/// Part of its contrast that a brightened picture has, in quarters, and what is added to it.
const CONTRAST_QUARTERS: i32 = 5;
const LIGHT: i32 = 20;
/// Weights of a pixel and its neighbours in a blurred picture: the fourth row of Pascal's triangle, which is close to a Gauss
/// curve. Their sum is 16.
const WEIGHTS: [u32; 5] = [1, 4, 6, 4, 1];
const WEIGHTS_SUM: u32 = 16;

/// A picture: its rows from above, each from the left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    width: u16,
    height: u16,
    pixels: Vec<Pixel>,
}

impl Image {
    /// One that is black.
    pub fn black(width: u16, height: u16) -> Self {
        Self { width, height, pixels: vec![[0; 3]; usize::from(width) * usize::from(height)] }
    }

    pub fn width(&self) -> u16 {
        self.width
    }

    pub fn height(&self) -> u16 {
        self.height
    }

    /// Its pixels, one behind the other.
    pub fn bytes(&self) -> &[u8] {
        self.pixels.as_flattened()
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.pixels.as_flattened_mut()
    }

    fn rows(&self) -> impl DoubleEndedIterator<Item = &[Pixel]> {
        self.pixels.chunks_exact(usize::from(self.width).max(1))
    }

    /// Left and right exchanged.
    pub fn flipped(&self) -> Self {
        let pixels = self.rows().flat_map(|row| row.iter().rev().copied()).collect();
        Self { pixels, ..*self }
    }

    /// A quarter turn clockwise: the left column, from below, becomes the first row.
    pub fn rotated(&self) -> Self {
        let column = |x: usize| self.rows().rev().map(move |row| row[x]);
        let pixels = (0..usize::from(self.width)).flat_map(column).collect();
        Self { width: self.height, height: self.width, pixels }
    }

    /// The middle: half of the width and half of the height.
    pub fn cropped(&self) -> Self {
        let (width, height) = (self.width.div_ceil(2), self.height.div_ceil(2));
        let left = usize::from((self.width - width) / 2);
        let rows = self.rows().skip(usize::from((self.height - height) / 2)).take(usize::from(height));
        let pixels = rows.flat_map(|row| row[left..left + usize::from(width)].iter().copied()).collect();
        Self { width, height, pixels }
    }

    /// With a quarter more contrast, and lighter.
    pub fn brightened(&self) -> Self {
        let shade: [u8; 256] = std::array::from_fn(|shade| {
            let shade = (shade as i32 - 128) * CONTRAST_QUARTERS / 4 + 128 + LIGHT;
            shade.clamp(0, 255) as u8
        });
        let pixels = self.pixels.iter().map(|pixel| pixel.map(|value| shade[usize::from(value)])).collect();
        Self { pixels, ..*self }
    }

    /// Each pixel mixed with the two on every side of it, along its row and then along its column.
    pub fn blurred(&self) -> Self {
        let mut pixels = Vec::with_capacity(self.pixels.len());
        for row in self.rows() {
            pixels.extend((0..row.len()).map(|x| mixed(around(x, row.len()).map(|x| row[x]))));
        }
        let across = Self { pixels, ..*self };
        let rows: Vec<&[Pixel]> = across.rows().collect();
        let mut pixels = Vec::with_capacity(self.pixels.len());
        for y in 0..rows.len() {
            let near = around(y, rows.len()).map(|y| rows[y]);
            pixels.extend((0..usize::from(self.width)).map(|x| mixed(near.map(|row| row[x]))));
        }
        Self { pixels, ..*self }
    }
}

/// The places around `place` of `count`. Beyond an edge the edge goes on.
fn around(place: usize, count: usize) -> [usize; 5] {
    std::array::from_fn(|offset| (place + offset).saturating_sub(2).min(count - 1))
}

fn mixed(pixels: [Pixel; 5]) -> Pixel {
    std::array::from_fn(|colour| {
        let weighted = pixels.iter().zip(WEIGHTS).map(|(pixel, weight)| u32::from(pixel[colour]) * weight);
        ((weighted.sum::<u32>() + WEIGHTS_SUM / 2) / WEIGHTS_SUM) as u8
    })
}

#[cfg(test)]
mod tests {
    use super::{Image, Pixel};

    /// A picture of these shades of grey.
    fn grey<const W: usize, const H: usize>(shades: [[u8; W]; H]) -> Image {
        let pixels = shades.as_flattened().iter().map(|shade| [*shade; 3]).collect();
        Image { width: W as u16, height: H as u16, pixels }
    }

    #[test]
    fn flipped_exchanges_left_and_right() {
        assert_eq!(grey([[1, 2, 3], [4, 5, 6]]).flipped(), grey([[3, 2, 1], [6, 5, 4]]));
    }

    #[test]
    fn rotated_turns_clockwise() {
        assert_eq!(grey([[1, 2, 3], [4, 5, 6]]).rotated(), grey([[4, 1], [5, 2], [6, 3]]));
    }

    #[test]
    fn cropped_is_the_middle() {
        let whole = grey([[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16]]);
        assert_eq!(whole.cropped(), grey([[6, 7], [10, 11]]));
        assert_eq!(grey([[1, 2, 3]]).cropped(), grey([[1, 2]]));
        assert_eq!(grey([[7]]).cropped(), grey([[7]]));
    }

    #[test]
    fn brightened_stretches_around_the_middle_and_stays_in_range() {
        let shades = grey([[0, 28, 128, 168, 255]]).brightened();
        // (shade - 128) * 1.25 + 148.
        assert_eq!(shades, grey([[0, 23, 148, 198, 255]]));
    }

    #[test]
    fn blurred_spreads_a_point_by_its_weights_and_keeps_what_is_even() {
        let mut point = Image::black(7, 7);
        point.pixels[3 * 7 + 3] = [0, 255, 0];
        let blurred = point.blurred();
        let at = |x: usize, y: usize| blurred.pixels[y * 7 + x];
        // 255 by the product of both weights, by 256: 36, 24, 4 of them, and 1.
        let expected: [(usize, usize, Pixel); 5] = [
            (3, 3, [0, 36, 0]),
            (4, 3, [0, 24, 0]),
            (3, 2, [0, 24, 0]),
            (5, 3, [0, 6, 0]),
            (5, 5, [0, 1, 0]),
        ];
        for (x, y, pixel) in expected {
            assert_eq!(at(x, y), pixel, "at {x}, {y}");
        }
        assert_eq!(at(0, 0), [0, 0, 0]);
        let even = grey([[77; 3]; 2]);
        assert_eq!(even.blurred(), even);
    }
}
