//! Counts the items of a long list at compile time, eight a step.
macro_rules! count {
    () => { 0usize };
    ($a:tt $b:tt $c:tt $d:tt $e:tt $f:tt $g:tt $h:tt $($tail:tt)*) => { 8 + count!($($tail)*) };
    ($head:tt $($tail:tt)*) => { 1 + count!($($tail)*) };
}

const LETTERS: usize = count!(a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e f g h i j k l m n o p q r s t u v w x y z);

pub fn handle(request: &[u8]) -> Vec<u8> {
    (LETTERS + request.len()).to_string().into_bytes()
}
