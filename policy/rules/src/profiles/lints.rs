//! What a source is held against beside the type system: the compiler's own lints, the soundness
//! lints, and the second solver.
//!
//! The names stand in every signed statement, and nodes refuse an artifact that lacks one of
//! them. A name is forever: a lint that changes its meaning gets another.

use crate::facts::SoundnessShape;

/// One soundness lint.
#[derive(Debug, Clone, Copy)]
pub struct LintRow {
    /// Its stable name.
    pub id: &'static str,
    /// What it looks for.
    pub shape: SoundnessShape,
    /// The issue of rust-lang/rust that is open on the pinned compiler.
    pub issue: u32,
    /// What was found, as a sentence fragment behind the item's name.
    pub what: &'static str,
    /// Why it is refused.
    pub why: &'static str,
    /// What to write instead, one sentence.
    pub instead: &'static str,
    /// The smallest refused code.
    pub refused: &'static str,
    /// The same, admitted.
    pub admitted: &'static str,
}

/// Every soundness lint.
pub const ROWS: &[LintRow] = &[
    LintRow {
        id: "nested_lifetime_witness",
        shape: SoundnessShape::WitnessAsValue,
        issue: 25_860,
        what: "used as a value, while its types imply a relation between lifetimes",
        why: "a function pointer forgets what `&'s &'l ()` implies, and then stretches any borrow",
        instead: "Write the relation as a bound (`where 'l: 's`), or pass a closure that calls the function.",
        refused: "fn keep<'s, 'l>(_: &'s &'l (), v: &'l str) -> &'s str { v }\nlet f = keep;",
        admitted: "fn keep<'s, 'l: 's>(_: &'s &'l (), v: &'l str) -> &'s str { v }\nlet f = keep;",
    },
    LintRow {
        id: "nested_lifetime_function_type",
        shape: SoundnessShape::WitnessInFunctionType,
        issue: 25_860,
        what: "the type of a function implies a relation between lifetimes",
        why: "closures believe what such a type implies, and pointers of that type forget it",
        instead: "Give the parameters one lifetime, or take a trait with a method instead of a function.",
        refused: "let f: for<'s, 'l> fn(&'s &'l (), &'l str) -> &'s str = |_, v| v;",
        admitted: "let f: for<'s> fn(&'s &'s (), &'s str) -> &'s str = |_, v| v;",
    },
    LintRow {
        id: "higher_ranked_relation",
        shape: SoundnessShape::HigherRankedWitness,
        issue: 84_591,
        what: "a bound for all lifetimes on a type that implies a relation between them",
        why: "the bound's supertraits forget the relation",
        instead: "Name one lifetime in the bound, or take the reference as a method's parameter.",
        refused: "fn f<S>() where S: for<'a, 'b> Convert<'a, 'b, &'b &'a ()> {}",
        admitted: "fn f<'a, 'b: 'a, S>() where S: Convert<'a, 'b, &'a &'b ()> {}",
    },
    LintRow {
        id: "projection_impl_header",
        shape: SoundnessShape::ProjectionInHeader,
        issue: 100_051,
        what: "the header of the impl is an associated type",
        why: "what the header implies is believed before the associated type is resolved, and not checked after",
        instead: "Write the type that the associated type stands for.",
        refused: "impl<'a, 'b> Stretch<'a, 'b> for <&'b &'a () as Unit>::Type { … }",
        admitted: "impl<'a, 'b> Stretch<'a, 'b> for () where 'a: 'b { … }",
    },
    LintRow {
        id: "projection_relation",
        shape: SoundnessShape::ProjectionWitness,
        issue: 129_005,
        what: "an associated type in its signature implies a relation between lifetimes",
        why: "the function believes the relation, and its callers resolve the associated type without checking it",
        instead: "Write the relation as a bound (`where 'l: 's`), or the type that the associated type stands for.",
        refused: "fn f<'s, 'l>(v: &'l str) -> <&'s &'l () as Give<&'s str>>::It { v }",
        admitted: "fn f<'s, 'l: 's>(v: &'l str) -> <&'s &'l () as Give<&'s str>>::It { v }",
    },
    LintRow {
        id: "outlived_associated_type",
        shape: SoundnessShape::OutlivedProjection,
        issue: 84_366,
        what: "a parameter outlives a lifetime, and what it projects to is believed to do so too",
        why: "a closure may be 'static while what it returns is not",
        instead: "Write the bound for the associated type as well (`P::Item: 'static`), or name the type (`Iterator<Item = u8>`).",
        refused: "fn keep<I: Iterator + 'static>(i: I, v: I::Item) -> Box<dyn Any> { … }",
        admitted: "fn keep<I: Iterator + 'static>(i: I, v: I::Item) -> Box<dyn Any> where I::Item: 'static { … }",
    },
    LintRow {
        id: "static_opaque_type",
        shape: SoundnessShape::StaticClosure,
        issue: 112_905,
        what: "it returns an `impl Trait` that is 'static by a bound or by `Any`, and names a lifetime or a type parameter that may have one",
        why: "what it returns can be turned into the same with another lifetime through `Any`",
        instead: "Leave `'static` out, bound the parameters by it (`T: 'static`), or take every lifetime (`for<'a> Fn(&'a str)`).",
        refused: "fn f<'a>() -> impl Fn(&'a str) -> &'a str + 'static { |s| s }",
        admitted: "fn f() -> impl for<'a> Fn(&'a str) -> &'a str + 'static { |s| s }",
    },
    LintRow {
        id: "object_under_blanket",
        shape: SoundnessShape::BlanketOverObject,
        issue: 57_893,
        what: "a blanket impl sets an associated type for every type, trait objects of the same trait included",
        why: "the object and the impl disagree about the associated type, which is a cast between any two types",
        instead: "Leave `?Sized` out of the impl, or use generics instead of the trait object.",
        refused: "impl<T: ?Sized, U> Give<U> for T { type Out = U; }\ntype Object<U> = dyn Give<U, Out = u8>;",
        admitted: "impl<T, U> Give<U> for T { type Out = U; }\ntype Object<U> = dyn Give<U, Out = u8>;",
    },
    LintRow {
        id: "pin_where_expected",
        shape: SoundnessShape::PinWhereExpected,
        issue: 153_438,
        what: "`pin!` stands where a type is expected of it",
        why: "the reference that it pins may be coerced, and what is pinned can then be moved",
        instead: "Bind it first: `let pinned = pin!(value);`, and use the name.",
        refused: "poll_it(pin!(future))",
        admitted: "let future = pin!(future);\npoll_it(future)",
    },
];

/// Lints of the compiler that every build forbids.
pub const COMPILER: &[&str] = &["unsafe_code", "long_running_const_eval"];

/// The name under which the agreement of the compiler's next trait solver is stated.
pub const SOLVER_AGREEMENT: &str = "next_solver_agreement";

/// What every artifact must have been held against: the names that statements list, that the
/// signer demands of a build and that serving sets demand of an artifact.
pub fn required() -> impl Iterator<Item = &'static str> {
    COMPILER.iter().copied().chain(std::iter::once(SOLVER_AGREEMENT)).chain(ROWS.iter().map(|row| row.id))
}

/// The row of a shape.
pub fn row(shape: SoundnessShape) -> &'static LintRow {
    match shape {
        SoundnessShape::WitnessAsValue => &ROWS[0],
        SoundnessShape::WitnessInFunctionType => &ROWS[1],
        SoundnessShape::HigherRankedWitness => &ROWS[2],
        SoundnessShape::ProjectionInHeader => &ROWS[3],
        SoundnessShape::ProjectionWitness => &ROWS[4],
        SoundnessShape::OutlivedProjection => &ROWS[5],
        SoundnessShape::StaticClosure => &ROWS[6],
        SoundnessShape::BlanketOverObject => &ROWS[7],
        SoundnessShape::PinWhereExpected => &ROWS[8],
    }
}
