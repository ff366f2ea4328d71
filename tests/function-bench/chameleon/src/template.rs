//! Templates: HTML whose elements may have `repeat="name list"` and `content="text"`, with `{name}` in attributes and contents.

use std::collections::HashMap;
use std::ops::Range;

use mfaas::Error;

/// What names mean.
#[derive(Debug, Default)]
pub struct Scope {
    lists: HashMap<String, Range<usize>>,
    values: HashMap<String, usize>,
}

impl Scope {
    /// What a name goes through where it is repeated over.
    pub fn set_list(&mut self, name: &str, numbers: Range<usize>) {
        self.lists.insert(name.to_owned(), numbers);
    }
}

/// A parsed template.
#[derive(Debug)]
pub struct Template(Vec<Node>);

#[derive(Debug)]
enum Node {
    Text(String),
    Element(Element),
}

#[derive(Debug)]
struct Element {
    name: String,
    attributes: Vec<(String, Text)>,
    /// The name and the list that it goes through.
    repeat: Option<(String, String)>,
    content: Option<Text>,
    children: Vec<Node>,
}

/// Text with names in it: what stands before each, and the rest.
#[derive(Debug)]
struct Text {
    pieces: Vec<(String, String)>,
    rest: String,
}

impl Template {
    /// Reads a template.
    pub fn parse(source: &str) -> Result<Self, Error> {
        let mut rest = source;
        let nodes = nodes(&mut rest, None)?;
        if rest.is_empty() { Ok(Self(nodes)) } else { Err(Error::new("an element ends that has not begun")) }
    }

    /// Appends what it comes to.
    pub fn render(&self, scope: &mut Scope, page: &mut String) -> Result<(), Error> {
        self.0.iter().try_for_each(|node| node.render(scope, page))
    }
}

/// Nodes up to the end of the element of that name, or of the template.
fn nodes(rest: &mut &str, within: Option<&str>) -> Result<Vec<Node>, Error> {
    let mut nodes = Vec::new();
    while let Some(at) = rest.find('<') {
        let whole = *rest;
        if at > 0 {
            nodes.push(Node::Text(whole[..at].to_owned()));
        }
        let (tag, after) = whole[at + 1..].split_once('>').ok_or(Error::new("a tag without its end"))?;
        match tag.strip_prefix('/') {
            Some(name) if Some(name) == within => {
                *rest = after;
                return Ok(nodes);
            }
            Some(name) => return Err(Error::new(format!("`{name}` ends and has not begun"))),
            None => {
                *rest = after;
                nodes.push(Node::Element(Element::parse(tag, rest)?));
            }
        }
    }
    if let Some(name) = within {
        return Err(Error::new(format!("`{name}` does not end")));
    }
    if !rest.is_empty() {
        nodes.push(Node::Text(std::mem::take(rest).to_owned()));
    }
    Ok(nodes)
}

impl Element {
    fn parse(tag: &str, rest: &mut &str) -> Result<Self, Error> {
        let (name, mut written) = tag.split_once(' ').unwrap_or((tag, ""));
        let (mut attributes, mut repeat, mut content) = (Vec::new(), None, None);
        while let Some((key, more)) = written.split_once("=\"") {
            let (value, more) = more.split_once('"').ok_or(Error::new("an attribute without its end"))?;
            match key.trim() {
                "repeat" => {
                    let (name, list) = value.split_once(' ').ok_or(Error::new("repeat=\"name list\""))?;
                    repeat = Some((name.to_owned(), list.to_owned()));
                }
                "content" => content = Some(Text::parse(value)?),
                key => attributes.push((key.to_owned(), Text::parse(value)?)),
            }
            written = more;
        }
        let children = nodes(rest, Some(name))?;
        Ok(Self { name: name.to_owned(), attributes, repeat, content, children })
    }

    fn render(&self, scope: &mut Scope, page: &mut String) -> Result<(), Error> {
        let Some((name, list)) = &self.repeat else { return self.render_once(scope, page) };
        let numbers = scope.lists.get(list).cloned();
        let numbers = numbers.ok_or_else(|| Error::new(format!("there is no list `{list}`")))?;
        let (first, before) = (numbers.start, scope.values.get(name).copied());
        for number in numbers {
            if number > first {
                page.push('\n');
            }
            scope.values.insert(name.clone(), number);
            self.render_once(scope, page)?;
        }
        match before {
            Some(value) => scope.values.insert(name.clone(), value),
            None => scope.values.remove(name),
        };
        Ok(())
    }

    fn render_once(&self, scope: &mut Scope, page: &mut String) -> Result<(), Error> {
        let name = &self.name;
        page.push('<');
        page.push_str(name);
        for (key, value) in &self.attributes {
            page.push(' ');
            page.push_str(key);
            page.push_str("=\"");
            value.render(scope, page)?;
            page.push('"');
        }
        page.push('>');
        match &self.content {
            Some(content) => content.render(scope, page)?,
            None => self.children.iter().try_for_each(|node| node.render(scope, page))?,
        }
        page.push_str("</");
        page.push_str(name);
        page.push('>');
        Ok(())
    }
}

impl Node {
    fn render(&self, scope: &mut Scope, page: &mut String) -> Result<(), Error> {
        match self {
            Self::Text(text) => {
                page.push_str(text);
                Ok(())
            }
            Self::Element(element) => element.render(scope, page),
        }
    }
}

impl Text {
    fn parse(text: &str) -> Result<Self, Error> {
        let (mut pieces, mut rest) = (Vec::new(), text);
        while let Some((before, more)) = rest.split_once('{') {
            let (name, more) = more.split_once('}').ok_or(Error::new("`{` without `}`"))?;
            pieces.push((before.to_owned(), name.to_owned()));
            rest = more;
        }
        Ok(Self { pieces, rest: rest.to_owned() })
    }

    fn render(&self, scope: &Scope, page: &mut String) -> Result<(), Error> {
        for (before, name) in &self.pieces {
            let value = scope.values.get(name);
            let value = value.ok_or_else(|| Error::new(format!("`{name}` means nothing here")))?;
            page.push_str(before);
            page.push_str(&value.to_string());
        }
        page.push_str(&self.rest);
        Ok(())
    }
}
