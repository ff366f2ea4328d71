//! Functions of numbers, from the crate `libm`: they answer the same on every machine. Services like
//! others: what writes a number checks where.

use crate::services::demand;

/// One function of the crate with the C calling convention.
macro_rules! function {
    ($name:ident ($($argument:ident: $type:ty),+) $result:ty) => {
        pub(crate) extern "C" fn $name($($argument: $type),+) -> $result {
            libm::$name($($argument),+)
        }
    };
}

/// Wraps functions of the crate, and looks one up by name.
macro_rules! functions {
    ($($signature:tt -> $result:ty: $($name:ident)+;)+) => {
        $($(function! { $name $signature $result })+)+

        /// The address of a function that takes and gives numbers alone.
        fn of_numbers(symbol: &str) -> Option<usize> {
            let address: *const () = match symbol {
                $($(stringify!($name) => $name as *const (),)+)+
                _ => return None,
            };
            Some(address.addr())
        }
    };
}

functions! {
    (x: f64) -> f64: acos acosh asin asinh atan atanh cbrt ceil cos cosh erf erfc exp exp2 expm1 fabs floor log
        log10 log1p log2 rint round roundeven sin sinh tan tanh tgamma trunc;
    (x: f32) -> f32: acosf acoshf asinf asinhf atanf atanhf cbrtf ceilf cosf coshf erff erfcf expf exp2f expm1f
        fabsf floorf logf log10f log1pf log2f rintf roundf roundevenf sinf sinhf tanf tanhf tgammaf truncf;
    (x: f64, y: f64) -> f64: atan2 copysign fdim fmax fmin fmod hypot pow;
    (x: f32, y: f32) -> f32: atan2f copysignf fdimf fmaxf fminf fmodf hypotf powf;
    (x: f64, exponent: i32) -> f64: ldexp;
    (x: f32, exponent: i32) -> f32: ldexpf;
    (x: f64, y: f64, z: f64) -> f64: fma;
    (x: f32, y: f32, z: f32) -> f32: fmaf;
}

/// What a function's import from libm is bound to.
pub(crate) fn address_of(symbol: &str) -> Option<usize> {
    let fused = std::arch::is_x86_feature_detected!("fma");
    let address: *const () = match symbol {
        "sqrt" => sqrt as *const (),
        "sqrtf" => sqrtf as *const (),
        "fma" if fused => fused_f64 as *const (),
        "fmaf" if fused => fused_f32 as *const (),
        "sincos" => sincos as *const (),
        "sincosf" => sincosf as *const (),
        "lgamma_r" => lgamma_r as *const (),
        "lgammaf_r" => lgammaf_r as *const (),
        other => return of_numbers(other),
    };
    Some(address.addr())
}

extern "C" fn sqrt(x: f64) -> f64 {
    x.sqrt()
}

extern "C" fn sqrtf(x: f32) -> f32 {
    x.sqrt()
}

#[target_feature(enable = "fma")]
extern "C" fn fused_f64(x: f64, y: f64, z: f64) -> f64 {
    x.mul_add(y, z)
}

#[target_feature(enable = "fma")]
extern "C" fn fused_f32(x: f32, y: f32, z: f32) -> f32 {
    x.mul_add(y, z)
}

/// # Safety
/// INV-EXECUTOR-4: as the other services.
unsafe extern "C" fn sincos(x: f64, sine: *mut f64, cosine: *mut f64) {
    let (sin, cos) = libm::sincos(x);
    demand(sine, 1);
    demand(cosine, 1);
    // SAFETY: INV-EXECUTOR-4. Checked above.
    unsafe { sine.write(sin) };
    // SAFETY: INV-EXECUTOR-4. Checked above.
    unsafe { cosine.write(cos) };
}

/// # Safety
/// INV-EXECUTOR-4: as `sincos`.
unsafe extern "C" fn sincosf(x: f32, sine: *mut f32, cosine: *mut f32) {
    let (sin, cos) = libm::sincosf(x);
    demand(sine, 1);
    demand(cosine, 1);
    // SAFETY: INV-EXECUTOR-4. Checked above.
    unsafe { sine.write(sin) };
    // SAFETY: INV-EXECUTOR-4. Checked above.
    unsafe { cosine.write(cos) };
}

/// # Safety
/// INV-EXECUTOR-4: as `sincos`.
unsafe extern "C" fn lgamma_r(x: f64, sign: *mut i32) -> f64 {
    let (value, negative) = libm::lgamma_r(x);
    demand(sign, 1);
    // SAFETY: INV-EXECUTOR-4. Checked above.
    unsafe { sign.write(negative) };
    value
}

/// # Safety
/// INV-EXECUTOR-4: as `sincos`.
unsafe extern "C" fn lgammaf_r(x: f32, sign: *mut i32) -> f32 {
    let (value, negative) = libm::lgammaf_r(x);
    demand(sign, 1);
    // SAFETY: INV-EXECUTOR-4. Checked above.
    unsafe { sign.write(negative) };
    value
}
