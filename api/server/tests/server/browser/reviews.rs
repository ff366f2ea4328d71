//! Strings in crates: in what the acquirer reports of them, in their files, in what people say about them.

use mfaas_blobs::Blobs;
use mfaas_ident::{Digest, sanitise, sanitise_line};
use serde_json::{Value, json};

use super::ledger::{escaped, line, lines, quoted};
use super::strings::{Hostile, as_sent};
use super::{Cookies, Site};
use crate::console::{csrf_of, page};
use crate::support::{crate_report, source_file, span};

/// Strings of one review: what its page shows of one class of interfaces.
const STRINGS: usize = 20;
/// The longest path that the database takes, in characters.
const PATH_CHARS: usize = 500;
/// The longest requirement and feature of a request that is shown on the allowlist, in bytes.
const REQUEST_BYTES: usize = 100;
/// Places of a report, a judgement and a request, by the tail that a string has there: each string stands in each.
const REPORTED: &[(&str, &str)] = &[
    ("what", "report: what a hotspot is"),
    ("inside", "report: what a hotspot is in"),
    ("source", "report: line of a hotspot"),
    ("said", "report: what the compiler said"),
    ("geiger", "report: why geiger could not read"),
    ("path", "report: path of a source file"),
    ("binary", "report: path of a binary file"),
    ("native", "report: path of a source in C"),
    ("touch", "report: interface of std"),
    ("unread", "report: what is not known"),
    ("licence", "report: licence"),
    ("links", "report: library that is linked"),
    ("edition", "report: edition"),
    ("reason", "judgement: reason, advisories and licences too"),
    ("place", "judgement: place of a reason"),
    ("rules", "judgement: revision of the rules"),
    ("crate-feature", "judgement: feature of the crate"),
    ("audit", "audit of others: source and notes"),
    ("criteria", "audit of others: criteria"),
    ("auditor", "audit of others: who"),
    ("trust", "audit of others: why it is trusted"),
    ("asked", "request: requirement"),
    ("wanted", "request: feature"),
    ("way", "request: way to the crate"),
];

/// One review with its share of the strings.
struct Dossier<'a> {
    number: usize,
    strings: &'a [Hostile],
    /// Those that a report can hold.
    kept: Vec<&'a Hostile>,
}

/// Opens the reviews, says something about their hotspots, votes on all and closes every other one.
pub(super) async fn reviews(site: &mut Site, strings: &[Hostile], cookies: &Cookies) {
    let blobs = Blobs::open(&format!("file://{}", site.server.dir().join("blobs").display())).unwrap();
    let (mut votes, mut decided, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
    for (number, strings) in strings.chunks(STRINGS).enumerate() {
        let kept = strings.iter().filter(|string| string.is_storable()).collect();
        let dossier = Dossier { number, strings, kept };
        dossier.open(site, &blobs, cookies).await;
        let id = i64::try_from(number).unwrap() + 1;
        let csrf = csrf_of(&page(&site.server, &format!("/reviews/{id}"), &cookies.reviewer).await.body);
        let mut texts = dossier.reported(site);
        let notes = dossier.notes(site, id, &csrf, cookies).await;
        let said = dossier.votes(site, id, &csrf, cookies).await;
        if number % 2 == 1 {
            decided.push(dossier.denial(site, id, &csrf, cookies).await);
        } else {
            waiting.extend(dossier.requests());
        }
        texts.extend(notes.iter().cloned());
        texts.extend(said.iter().cloned());
        site.ledger.page(&format!("/reviews/{id}"), &cookies.reviewer, 200, &texts);
        votes.extend(said);
        let source = dossier.kept.iter().map(|string| sanitise(&in_one_line(string), 10_000));
        let texts: Vec<String> = source.chain(notes).collect();
        site.ledger.page(&format!("/reviews/{id}/files/src/lib.rs"), &cookies.reviewer, 200, &texts);
    }
    votes.extend(decided.iter().cloned());
    site.ledger.page("/crates/left-pad", &cookies.reviewer, 200, &votes);
    site.ledger.page("/reviews", &cookies.reviewer, 200, &decided);
    site.ledger.page("/crates", &cookies.reviewer, 200, &waiting);
}

/// A line of the file that has the hotspots.
fn in_one_line(string: &Hostile) -> String {
    string.at("line").replace(['\n', '\r'], " ")
}

impl Dossier<'_> {
    fn checksum(&self) -> String {
        Digest::of(format!("archive {}", self.number).as_bytes()).to_string()
    }

    /// What each of the strings is in one place.
    fn all(&self, place: &str) -> Vec<String> {
        self.kept.iter().map(|string| string.at(place)).collect()
    }

    async fn open(&self, site: &mut Site, blobs: &Blobs, cookies: &Cookies) {
        let source: Vec<String> = self.kept.iter().map(|string| in_one_line(string)).collect();
        let mut files = vec![("src/lib.rs".to_owned(), source.join("\n").into_bytes())];
        for string in self.strings {
            let path = line(&string.at("file"));
            // Neither an archive nor an address can hold a part that leads upwards.
            let leads_away = path.split('/').any(|part| part == "." || part == "..");
            let fits = string.is_storable() && path.chars().count() <= PATH_CHARS && !leads_away;
            site.ledger.tried("crate: path of a file", fits);
            site.ledger.placed("crate: text of a file");
            let path = if fits { path } else { format!("other/{}.rs", string.number) };
            let address = format!("/reviews/{}/files/{}", self.number + 1, escaped(&path));
            let text = String::from_utf8_lossy(&string.bytes).into_owned();
            let texts = text.lines().filter(|text| !text.trim().is_empty());
            let mut texts: Vec<String> = texts.map(|text| sanitise(text, 40_000)).collect();
            texts.push(path.clone());
            site.ledger.page(&address, &cookies.reviewer, 200, &texts);
            files.push((path, string.bytes.clone()));
        }
        let mut rows = Vec::new();
        for (path, bytes) in files {
            let blob = blobs.put(bytes.into()).await.unwrap();
            rows.push(format!("('{}', {}, '{blob}', 9)", self.checksum(), quoted(&path)));
        }
        site.server.db.script(&self.sql(&rows.join(", ")));
    }

    fn sql(&self, files: &str) -> String {
        let (checksum, version) = (self.checksum(), format!("1.{}.0", self.number));
        let key = Digest::of(format!("report {}", self.number).as_bytes());
        let (report, judgement) = (quoted(&self.report().to_string()), quoted(&self.judgement().to_string()));
        let array = |texts: &[String]| {
            format!("ARRAY[{}]::text[]", texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", "))
        };
        let mut sql = format!(
            "INSERT INTO crate_archives (checksum, name, version, bytes) VALUES ('{checksum}', 'left-pad', '{version}', 9);
             INSERT INTO crate_files (checksum, path, blob, bytes) VALUES {files};
             INSERT INTO crate_reports (key, checksum, report) VALUES ('{key}', '{checksum}', {report});
             INSERT INTO reviews (name, version, checksum, features, toolchain, report, people, rules_revision, judgement)
             VALUES ('left-pad', '{version}', '{checksum}', {}, '{key}', '{key}', 2, {}, {judgement});",
            array(&self.all("crate-feature")),
            quoted(&self.all("rules").join(" ")),
        );
        for string in &self.kept {
            sql.push_str(&format!(
                "WITH asked AS (
                     INSERT INTO crate_requests (tenant, name, requirement, features, code, status, requested_by)
                     VALUES ('a', 'left-pad', {}, {}, 'MF0204', 'reviewing', 'a/test') RETURNING id)
                 INSERT INTO request_members (request_id, name, version, checksum, features, path, review_id)
                 SELECT asked.id, 'left-pad', '{version}', '{checksum}', '{{}}', {}, (SELECT max(id) FROM reviews)
                 FROM asked;",
                quoted(&string.at("asked")),
                array(&[string.at("wanted")]),
                array(&[string.at("way")]),
            ));
        }
        sql
    }

    fn report(&self) -> Value {
        let hotspot = |(at, string): (u32, &&Hostile)| {
            let place = span("src/lib.rs", at, (1, 8), &string.at("source"));
            json!({ "kind": "unsafe", "what": string.at("what"), "inside": string.at("inside"), "span": place })
        };
        let hotspots: Vec<Value> = (1_u32..).zip(&self.kept).map(hotspot).collect();
        let said = |(at, string): (u32, &&Hostile)| {
            let place = span("src/lib.rs", at, (1, 9), "");
            json!({ "span": place, "message": string.at("said") })
        };
        let said: Vec<Value> = (1_u32..).zip(&self.kept).map(said).collect();
        let mut files = vec![source_file("src/lib.rs", "library", &hotspots)];
        files.extend(self.kept.iter().map(|string| {
            let mut file = source_file(&string.at("path"), "library", &[]);
            file["geiger"] = json!({ "unknown": { "reason": string.at("geiger") } });
            file
        }));
        let compiler = json!({ "unsafe": { "errors": 1, "spots": said } });
        let mut report = crate_report(&files, &compiler, &self.all("unread"));
        report["version"] = json!(format!("1.{}.0", self.number));
        report["checksum"] = json!(self.checksum());
        report["archive"]["native_sources"] = json!(self.all("native"));
        let binary = |path: String| json!({ "path": path, "kind": "unknown" });
        report["archive"]["binaries"] = self.all("binary").into_iter().map(binary).collect();
        let touch = |path: String| json!({ "path": path, "span": span(&path, 1, (1, 2), &path) });
        report["touches"]["classes"][0]["spots"] = self.all("touch").into_iter().map(touch).collect();
        report["licence"] = json!({ "expression": self.all("licence").join(" "), "file": null });
        report["kind"]["links"] = json!(self.all("links").join(" "));
        report["kind"]["edition"] = json!(self.all("edition").join(" "));
        report
    }

    fn judgement(&self) -> Value {
        let risks = ["advisory-unsound", "licence-unknown", "unsafe-tokens", "build-script"];
        let reason = |string: &&Hostile| {
            let place = json!({ "span": span("src/other.rs", 1, (0, 0), ""), "what": string.at("place") });
            json!({ "risk": risks[string.number % risks.len()], "text": string.at("reason"), "spots": [place] })
        };
        let careful = serde_json::to_value(mfaas_rules::profiles::crate_rules::Trust::Careful).unwrap();
        let hint = |string: &&Hostile| {
            let audit = json!({
                "source": string.at("audit"), "package": "left-pad", "kind": { "full": { "version": "1.2.3" } },
                "criteria": [string.at("criteria")], "who": [string.at("auditor")], "notes": string.at("audit"),
            });
            json!({ "audit": audit, "this_version": true, "trust": careful, "why": string.at("trust") })
        };
        json!({
            "suggestion": { "review": { "people": 2 } }, "rules_revision": "test",
            "reasons": self.kept.iter().map(reason).collect::<Vec<_>>(),
            "hints": self.kept.iter().map(hint).collect::<Vec<_>>(),
        })
    }

    /// What the page of the review shows of report, judgement and requests.
    fn reported(&self, site: &mut Site) -> Vec<String> {
        let mut texts = Vec::new();
        for (tail, place) in REPORTED {
            let of_report = self.strings.iter().map(Hostile::is_storable);
            of_report.for_each(|taken| site.ledger.tried(place, taken));
            // The allowlist alone shows which features were asked for.
            if *tail != "wanted" {
                texts.extend(self.all(tail).iter().map(|text| line(text)));
            }
        }
        texts
    }

    /// What the allowlist shows of the requests.
    fn requests(&self) -> Vec<String> {
        let texts = self.all("asked").into_iter().chain(self.all("wanted"));
        texts.map(|text| sanitise_line(&text, REQUEST_BYTES)).collect()
    }

    /// A note about each hotspot, by the form; what is taken.
    async fn notes(&self, site: &mut Site, id: i64, csrf: &str, cookies: &Cookies) -> Vec<String> {
        let mut taken = Vec::new();
        for string in self.strings {
            let place = self.kept.iter().position(|kept| kept.number == string.number).unwrap_or_default();
            let (hotspot, note) = (format!("src/lib.rs:{}:1:unsafe", place + 1), string.at("note"));
            let fields = [
                ("hotspot", hotspot.as_str()),
                ("state", "seen"),
                ("note", &note),
                ("back", "review"),
                ("csrf", csrf),
            ];
            let path = format!("/reviews/{id}/hotspots");
            let request =
                site.server.request("POST", &path, "").header("cookie", &cookies.reviewer).form(&fields);
            let status = site.server.send(request).await.status;
            let right = if string.is_visible() { 303 } else { 400 };
            assert_eq!(status, right, "{:?}", string.text);
            site.ledger.tried("form: note about a hotspot", status == 303);
            if status == 303 {
                taken.push(lines(&as_sent(&note)));
            }
        }
        taken
    }

    /// A vote with each string: those that the form refuses are sent to it, the others are rows, since each
    /// person has one vote.
    async fn votes(&self, site: &mut Site, id: i64, csrf: &str, cookies: &Cookies) -> Vec<String> {
        let (mut sql, mut taken) = (String::new(), Vec::new());
        for string in self.strings {
            let words = string.at("vote");
            site.ledger.tried("form: words of a vote", string.is_visible());
            if string.is_visible() {
                sql.push_str(&format!(
                    "INSERT INTO tokens (tenant, name, person, scopes, secret_sha256)
                     SELECT min(name), 'p{number}', 'p{number}', '{{review}}', repeat('{id:04}', 8) || lpad('{number}', 32, '0') FROM tenants;
                     INSERT INTO votes (review_id, person, token_id, approve, note, actor)
                     SELECT {id}, person, id, true, {note}, 'test' FROM tokens WHERE person = 'p{number}';",
                    number = string.number,
                    note = quoted(&as_sent(&words))
                ));
                taken.push(lines(&as_sent(&words)));
                continue;
            }
            assert_eq!(self.no(site, id, &words, csrf, cookies).await, 400, "{:?} was taken", string.text);
        }
        site.server.db.script(&sql);
        taken
    }

    /// A no with the words of one of the strings.
    async fn denial(&self, site: &mut Site, id: i64, csrf: &str, cookies: &Cookies) -> String {
        let string = self.strings.iter().find(|string| string.is_visible()).unwrap();
        let words = string.at("denial");
        assert_eq!(self.no(site, id, &words, csrf, cookies).await, 303, "{words:?} was refused");
        lines(&as_sent(&words))
    }

    async fn no(&self, site: &Site, id: i64, words: &str, csrf: &str, cookies: &Cookies) -> u16 {
        let fields = [("vote", "no"), ("note", words), ("csrf", csrf)];
        let path = format!("/reviews/{id}/votes");
        let request =
            site.server.request("POST", &path, "").header("cookie", &cookies.reviewer).form(&fields);
        site.server.send(request).await.status
    }
}
