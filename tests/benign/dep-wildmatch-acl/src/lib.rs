//! Access rules with wildcards; the first that matches decides.
use serde::Deserialize;
use std::fmt;
use wildmatch::WildMatch;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Effect {
    Allow,
    Deny,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        })
    }
}

#[derive(Debug, Deserialize)]
struct Rule {
    effect: Effect,
    path: String,
    #[serde(default)]
    methods: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Question {
    #[serde(default)]
    rules: Vec<Rule>,
    ask: Vec<(String, String)>,
}

struct Compiled<'a> {
    rule: &'a Rule,
    pattern: WildMatch,
}

impl Compiled<'_> {
    fn applies(&self, method: &str, path: &str) -> bool {
        let methods = &self.rule.methods;
        (methods.is_empty() || methods.iter().any(|known| known == method)) && self.pattern.matches(path)
    }
}

fn answer(request: &[u8]) -> Result<String, serde_json::Error> {
    let question: Question = serde_json::from_slice(request)?;
    let rules: Vec<Compiled<'_>> = question
        .rules
        .iter()
        .map(|rule| Compiled { rule, pattern: WildMatch::new(&rule.path) })
        .collect();
    let line = |(method, path): &(String, String)| {
        let found = rules
            .iter()
            .enumerate()
            .find_map(|(n, rule)| rule.applies(method, path).then_some((n + 1, rule.rule.effect)));
        match found {
            Some((n, effect)) => format!("{method} {path}: {effect} by rule {n}\n"),
            None => format!("{method} {path}: {} by default\n", Effect::Deny),
        }
    };
    Ok(question.ask.iter().map(line).collect())
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    answer(request).unwrap_or_else(|error| format!("refused: {error}")).into_bytes()
}
