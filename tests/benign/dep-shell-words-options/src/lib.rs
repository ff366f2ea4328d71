//! A command line, parsed as a shell would split it, and written back in one form.
#[derive(Debug, Default)]
struct Options {
    command: String,
    operands: Vec<String>,
    to: Option<String>,
    verbose: bool,
}

fn parse(words: &[String]) -> Result<Options, String> {
    let [command, rest @ ..] = words else { return Err("a command is missing".to_owned()) };
    let mut options = Options { command: command.clone(), ..Options::default() };
    let mut rest = rest;
    loop {
        rest = match rest {
            [] => break Ok(options),
            [flag, more @ ..] if flag == "-v" || flag == "--verbose" => {
                options.verbose = true;
                more
            }
            [flag, value, more @ ..] if flag == "--to" => {
                options.to = Some(value.clone());
                more
            }
            [flag] if flag == "--to" => break Err("--to needs a value".to_owned()),
            [flag, ..] if flag.starts_with('-') => break Err(format!("unknown option {flag}")),
            [operand, more @ ..] => {
                options.operands.push(operand.clone());
                more
            }
        }
    }
}

impl Options {
    fn words(&self) -> impl Iterator<Item = &str> {
        let to = self.to.iter().flat_map(|to| ["--to", to]);
        std::iter::once(self.command.as_str())
            .chain(self.operands.iter().map(String::as_str))
            .chain(to)
            .chain(self.verbose.then_some("--verbose"))
    }
}

fn answer(line: &str) -> Result<String, String> {
    let words = shell_words::split(line).map_err(|error| error.to_string())?;
    let options = parse(&words)?;
    if options.to.is_none() {
        return Err(format!("{}: --to is missing", options.command));
    }
    Ok(shell_words::join(options.words()))
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    let line = String::from_utf8_lossy(request);
    format!("{}\n", answer(&line).unwrap_or_else(|error| error)).into_bytes()
}
