//! The stable codes. A code is forever: it is never given another meaning and never reused.
//!
//! Domain errors know no HTTP; `mfaas-wire` gives each code its status, and a test there fails
//! when a code has none.

use serde::{Deserialize, Serialize};

/// A stable code such as `MF0301`. Values exist only for rows of the table below.
#[derive(Clone, Copy)]
pub struct Code(&'static Row);

struct Row {
    id: &'static str,
    title: &'static str,
    hint: &'static str,
}

impl Code {
    /// `MF0301`.
    pub fn id(self) -> &'static str {
        self.0.id
    }

    /// What it means, one sentence.
    pub fn title(self) -> &'static str {
        self.0.title
    }

    /// What to do about it, one sentence.
    pub fn hint(self) -> &'static str {
        self.0.hint
    }

    /// The number in it: 301 of `MF0301`.
    pub fn number(self) -> u32 {
        self.0.id[2..].parse().unwrap_or(u32::MAX)
    }

    /// The code of that id.
    pub fn parse(id: &str) -> Option<Self> {
        ALL.iter().copied().find(|code| code.id() == id)
    }

    /// The two digits of its family: `01` archive … `10` backup.
    pub fn family(self) -> &'static str {
        &self.0.id[2..4]
    }
}

impl PartialEq for Code {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}
impl Eq for Code {}
impl PartialOrd for Code {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Code {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.id().cmp(other.id())
    }
}
impl std::hash::Hash for Code {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}
impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.id())
    }
}
impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.id())
    }
}
impl Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}
impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let id = String::deserialize(deserializer)?;
        Self::parse(&id).ok_or_else(|| serde::de::Error::custom("unknown mfaas code"))
    }
}

macro_rules! table {
    ($dollar:tt $($id:ident $title:literal, $hint:literal;)*) => {
        $(#[doc = $title] pub const $id: Code = Code(&Row { id: stringify!($id), title: $title, hint: $hint });)*
        /// Every code, in order.
        pub const ALL: &[Code] = &[$($id),*];

        /// Calls a macro with the names of all codes, for tables in which none may be missing.
        #[macro_export]
        macro_rules! every_code {
            ($dollar then:ident) => { $dollar then! { $($id)* } };
        }
    };
}

// The dollar sign is for the macro that the table defines.
table! { $
    MF0101 "The upload is larger than 10 MiB.", "Leave build output and data files out; `mfaas deploy` skips `target/` and `.git/` by itself.";
    MF0102 "The upload is not one complete gzip-compressed tar archive.", "Pack with `mfaas deploy`, or with `tar --format=ustar -czf`; nothing may follow the archive.";
    MF0103 "The upload unpacks to more than 64 MiB.", "Leave data files out; a function gets its data with the request.";
    MF0104 "The upload holds more than 2,000 files and directories.", "Leave generated files out.";
    MF0105 "A path in the upload is not allowed.", "Use relative paths of at most 16 components from A-Z a-z 0-9 . _ -, 200 bytes in all.";
    MF0106 "The upload holds something other than plain files and directories.", "Replace links, devices and special modes by plain files.";
    MF0107 "Two paths in the upload are the same, or differ only in upper and lower case.", "Rename or remove one of them.";
    MF0108 "The upload has no Cargo.toml at its root.", "Deploy the directory that holds Cargo.toml.";
    MF0109 "The upload holds a file that would steer the build.", "Remove `.cargo/`, `rust-toolchain`, `rust-toolchain.toml` and `build.rs`: the toolchain and its flags belong to the server.";

    MF0201 "Cargo.toml cannot be read.", "Check it with `cargo metadata`; it must be UTF-8 TOML of at most 64 KiB.";
    MF0202 "Cargo.toml has a key that is not allowed.", "Remove the key: lints, profiles, patches, build scripts and workspaces belong to the server.";
    MF0203 "A dependency does not come from the registry.", "Use a version from the allowlist (`mfaas crate list`), or copy the source into your crate.";
    MF0204 "A dependency is not on the allowlist.", "A reviewer has been asked; the deployment goes on by itself after approval. `mfaas crate list` shows what is allowed today.";
    MF0205 "No allowed version of a dependency satisfies the requirement.", "Widen the requirement to the version that `mfaas crate list` shows, or wait for the review.";
    MF0206 "A dependency is asked for with a feature that is not offered.", "Use the features that `mfaas crate list` shows, or wait for the review.";
    MF0207 "A value in Cargo.toml is not valid.", "See the reason at the line.";
    MF0209 "A dependency has been denied or revoked by a reviewer.", "Use another crate; `mfaas crate list` shows the reason.";
    MF0210 "A dependency cannot be offered at this site, and no vote can change that.", "The message says why and, where there is one, which version is offered instead.";
    MF0211 "The function asks for more than its class may have.", "Ask for less, or say `class = \"bulk\"` under [package.metadata.mfaas]: a bulk function has up to 600s and 1024MiB.";

    MF0301 "The source contains `unsafe`.", "Write it in safe Rust, or use a crate from the allowlist that offers it safely.";
    MF0302 "The source declares or links foreign functions.", "A function is pure Rust: remove `extern` blocks and `extern fn`.";
    MF0303 "The source contains machine code.", "Write it in Rust; the compiler vectorises plain loops.";
    MF0304 "The source takes in files or variables of the build machine.", "Write the content into the source, or send it with the request.";
    MF0305 "The source uses an attribute that is not on the allowlist.", "Remove the attribute; `mfaas explain MF0305` lists those allowed.";
    MF0306 "The source uses a macro that is not allowed.", "Remove the call, or write what it does as a function.";
    MF0307 "The source uses a part of the standard library that functions do not have.", "A function reaches its request, its memory, a clock, random bytes and log lines: see the crate `mfaas`.";
    MF0308 "A macro would put your code inside `unsafe`, or emit something with the same power.", "Call the macro's crate through its functions, or use another crate; the macro trusts its caller, and callers here are not trusted.";
    MF0309 "The source is larger or nested deeper than the compiler survives.", "Split the file or the expression.";
    MF0310 "A source file is not readable Rust text.", "Save it as UTF-8 without control and bidirectional characters, and check it with `cargo check`.";
    MF0311 "The compiler read something outside the upload.", "Remove what reaches outside: includes, paths and build variables.";
    MF0312 "The expanded source could not be checked.", "Simplify the macros; if this happens to ordinary code, report it: the check refuses what it does not understand.";
    MF0313 "The root of the standard library is renamed or imported as a whole.", "Name what you use: `use std::collections::HashMap;`.";
    MF0314 "The source has the shape of a known soundness hole of the compiler.", "Write the lint's alternative: the message names the lint, and `mfaas explain MF0314` shows each with what to write instead.";

    MF0401 "The source does not compile.", "See the compiler's own messages.";
    MF0402 "The compiler used more CPU time than a build may.", "Make constant evaluation, generics and macros smaller; the limit is 30 s of CPU.";
    MF0403 "The build took longer than it may.", "Make the source smaller; the limit is 120 s.";
    MF0404 "The compiler used more memory than a build may.", "Make constants, generics and macros smaller; the limit is 2 GiB.";
    MF0405 "The compiler wrote more than a build may.", "Make the source smaller; the limits are 256 MiB for a file and 4 MiB of messages.";
    MF0406 "The compiler crashed on this source.", "Simplify the source; a crash of the compiler is treated as a refusal.";
    MF0407 "The function needs something from the operating system that functions do not have.", "Remove the use of the named part of the standard library.";
    MF0408 "The handler does not fit.", "Use `fn(&[u8]) -> Vec<u8>`, or `fn` or `async fn` of `mfaas::Request`, `mfaas::Json<T>`, `String` or `Vec<u8>`, and make it `pub`.";
    MF0409 "The build sandbox is not as strong as the configuration demands.", "Ask the operator: `mfaas doctor` on the build machine names what is missing.";
    MF0410 "The build was lost three times and has been given up.", "Deploy again; if it happens again, ask the operator for the log of this deployment.";
    MF0411 "A dependency's build has touched what is not its own.", "Do not allow the crate: its macro or build script attacks others. The operator has its name in the log.";
    MF0412 "A macro has expanded differently when the source was compiled.", "Call the crates whose macros the source uses through their functions; a macro that is not the same each time cannot be checked.";
    MF0413 "The build service cannot work at the moment.", "Nothing: the deployment is kept, and is built as soon as the service works again.";
    MF0414 "The handler does not take the bindings that Cargo.toml declares.", "Declare what each `Kv<B>` of the handler names under [package.metadata.mfaas.bindings], with the same access, and nothing else.";

    MF0501 "The result is not an x86-64 shared object.", "This is a fault of the build; report it.";
    MF0502 "The image has segments that could be written and run, or that do not fit the file.", "This does not come from ordinary source; remove tricks with sections and statics.";
    MF0503 "The image asks for libraries.", "Remove what links: functions are bound to the host alone.";
    MF0504 "The image imports a symbol that is not offered.", "Remove the use of the named part of the standard library.";
    MF0505 "The image exports something other than its entry.", "Remove attributes that export symbols.";
    MF0506 "The image has relocations of a kind that is not allowed.", "This does not come from ordinary source; report it.";
    MF0507 "The image would run code before its entry.", "Remove what registers constructors.";
    MF0508 "The image contains instructions that change protection keys or call the kernel.", "Change the code a little if this is ordinary source (the bytes can occur by chance), and report it.";
    MF0509 "The image is too large.", "Make statics and constants smaller: 16 MiB of file, 64 MiB of memory and 4 MiB of writable data are the limits.";
    MF0510 "The throw-away load of the image failed.", "This is a fault of the build; report it.";
    MF0511 "The function's machine code cannot be kept inside its memory.", "Leave out what leads to the named function, or report it: it may be a fault of the build.";

    MF0601 "Stored bytes do not match their digest.", "Deploy again; the operator has to look at the blob store.";
    MF0602 "A signature does not verify.", "Do not use the artifact; ask the operator which key signed it.";
    MF0603 "The signer found something else than the builder.", "Deploy again; the operator has to look at the builder.";
    MF0604 "The policy changed while the build was under way.", "Deploy again.";
    MF0605 "The build was taken over by another builder.", "Nothing to do: the newer attempt decides.";
    MF0606 "A statement is malformed.", "Do not use the artifact; ask the operator.";
    MF0607 "Stored bytes are missing.", "Deploy again; the operator has to look at the blob store.";
    MF0608 "The builders that have to agree do not.", "Deploy again; the operator finds in the audit log which builders made what.";
    MF0609 "Another builder has to make the same before it is signed.", "Nothing: the deployment is kept, and is signed as soon as another builder has made the same.";

    MF0701 "A serving set is not signed by a trusted key.", "The node keeps what it serves; the operator has to look at the keys.";
    MF0702 "A serving set is older than one already seen.", "The node keeps what it serves; the operator has to look for a replay or a restored backup.";
    MF0703 "The serving set has expired.", "The node keeps serving and loads nothing new; the operator has to look at the signer.";
    MF0704 "An artifact's bytes do not match its digest.", "The node refuses it; the operator has to look at the blob store.";
    MF0705 "An artifact's statement does not fit what the serving set names.", "The node refuses it; the operator has to look at the registry.";
    MF0706 "The artifact has been revoked.", "Deploy a new version.";
    MF0707 "The artifact was built by a toolchain or for an interface that the node does not accept.", "Deploy again: it is built by the current toolchain.";
    MF0708 "The node's own inspection refuses the artifact.", "Deploy again; the operator has to compare the policy revisions.";
    MF0709 "The node could not load the artifact.", "See the node's log.";
    MF0710 "The node is not known, or its join token is not valid.", "Create a new token with `mfaas node join-token`: it joins as many nodes as it says, until it ends.";
    MF0711 "The node is cordoned and takes no new versions.", "It serves what it had; `mfaas node uncordon` lets it take the rest.";
    MF0712 "The node has no worker process of its own left for the function's tenant.", "Update the node: from this release on it starts worker processes for every tenant.";
    MF0713 "A serving set is for nodes that know a newer key list.", "The node asks for the list and takes the set then; the operator has to look at who withholds it.";
    MF0714 "A serving set's epoch is too far ahead of the last.", "The node keeps what it serves; the operator has to look for a stolen key.";
    MF0715 "The key list has expired.", "The node keeps serving and loads nothing new; the operator renews the list: `mfaas-signer rotate --renew`.";
    MF0716 "A key list is not signed by enough root keys.", "The node keeps what it serves; let the other holders of root keys sign the list and publish it again.";
    MF0717 "A key list does not follow the one that the node has.", "The node keeps what it serves; publish the lists in between, or pin a newer key list on the node.";
    MF0718 "There are two key lists of one version.", "The node keeps the one that it has; the holders of the root keys have to look at who signed the other.";
    MF0719 "The function's machine code is not verified, and this node runs no other.", "Deploy it again: it is compiled to code that verifies.";
    MF0721 "The site issues no certificate now.", "Ask again: a join token was not used, and nodes that have a certificate go on. The operator has to see that a signer with MFAAS_CA_DIR runs, and who makes join tokens.";
    MF0722 "The node has no workers for a bulk function of this size.", "Ask for less `memory`, or let the operator raise MFAAS_BULK_MEMORY_MIB on the nodes.";
    MF0723 "The function binds data, and this node reaches none.", "Start mfaas-broker on the node, and name its socket with MFAAS_BROKER_SOCKET.";

    MF0801 "No such function is served here.", "Check tenant, name and version with `mfaas list`; a new version takes a moment to arrive.";
    MF0802 "The function panicked.", "See `mfaas logs` for the message; the next call starts from a clean state.";
    MF0803 "The function used more CPU time than its budget.", "Raise `budget` under [package.metadata.mfaas], or make it faster.";
    MF0804 "The function overflowed its stack.", "Make the recursion shallower; the stack is 512 KiB.";
    MF0805 "The function used more memory than it may.", "Raise `memory` under [package.metadata.mfaas], or use less.";
    MF0806 "The function tried something that is denied.", "Functions reach only their request, a clock, random bytes and log lines.";
    MF0807 "The function touched memory that it may not.", "Safe Rust does not do this: report it with the source.";
    MF0808 "The call was lost with its worker.", "Try again if the call may run twice; the worker has been replaced.";
    MF0809 "The request is larger than a call may be.", "Send at most 1 MiB, or 64 MiB to a function of class `bulk`.";
    MF0810 "The answer is larger than it may be, or malformed.", "Answer with at most 1 MiB, or 64 MiB from a function of class `bulk`.";
    MF0811 "The node is busy.", "Try again after the time named in Retry-After.";
    MF0812 "The function answered with an error.", "The body is the function's own message.";
    MF0813 "The function is banned after repeated crashes.", "Deploy a new version, or ask an operator to lift the ban with `mfaas node unban`.";
    MF0814 "The function ended itself.", "Return from the handler instead of aborting; see `mfaas logs`.";
    MF0815 "The node is being drained and takes no new calls.", "Ask another node, or try again after the time named in Retry-After.";
    MF0816 "The call shows no call token that counts.", "Send `Authorization: Bearer TOKEN` with a token of `mfaas token create --call FUNCTION`, or call with `mfaas invoke`.";
    MF0817 "The call token does not open this function.", "Ask the function's tenant for a token that names it: `mfaas token create --call FUNCTION`.";
    MF0818 "The caller has used up its share of this function on this node.", "Try again after the time named in Retry-After, with fewer calls at a time.";
    MF0819 "The call waited longer than a call may take.", "Wait for less: a call may take a minute, or an hour of class `bulk`.";
    MF0820 "The function is not loaded yet.", "Try again after the time named in Retry-After: the node has just started, or was just told of this version.";
    MF0821 "The request does not name one valid host.", "Send exactly one Host header (in HTTP/2 one :authority), a host name or address with an optional port.";
    MF0822 "The method is not one that is taken here.", "Use GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS; the answer's Allow header lists them.";
    MF0823 "The request's coding is not one that is taken.", "Send the body as it is: no Content-Encoding, and no Transfer-Encoding but a single `chunked`.";
    MF0824 "Too much is asked from one address at once.", "Wait for answers before asking for more, or try again after the time named in Retry-After.";

    MF0901 "The token is missing or not valid.", "Sign in with `mfaas login`.";
    MF0902 "The token may not do this.", "Ask for a token with the scope named in the message.";
    MF0903 "Not found.", "Check the name with `mfaas list`; what belongs to other tenants does not show.";
    MF0904 "The request is not valid.", "See the reason; the interface is described at /openapi.json.";
    MF0905 "The idempotency key was used for another request.", "Use a new key for a new upload.";
    MF0906 "The server does not answer to this host name.", "Use the address that `mfaas status` shows.";
    MF0907 "The request body is too large.", "See the limit in the message.";
    MF0908 "The request conflicts with the present state.", "Look again and repeat if it still makes sense.";
    MF0909 "Something went wrong inside the server.", "Try again; give the operator the request id if it stays.";
    MF0910 "The server cannot work at the moment.", "Try again later; `/readyz` says what is missing.";
    MF0911 "There is no such route, or not with this method.", "The interface is described at /openapi.json.";
    MF0912 "Too many requests at once.", "Try again after the time named in Retry-After.";
    MF0913 "A token that decides about dependencies has to name its person.", "Ask an admin for a token that names you: `mfaas token create NAME --role reviewer --person YOU`.";
    MF0914 "Nobody was signed in by the identity provider.", "Try again from the sign-in page; if it stays, ask the operator which groups have a role here.";
    MF0915 "The request came too slowly.", "Send it again over a faster connection and without pauses; the limits are in docs/operations.md.";
    MF0916 "The body is not of a type that this route takes.", "Send JSON with `Content-Type: application/json`; the interface is described at /openapi.json.";
    MF0917 "The tenant has used up its share of the build queue.", "Wait for some of the tenant's deployments to end, and try again after the time named in Retry-After.";
    MF0918 "The tenant has as many functions as it may have.", "Delete functions that nobody calls (`mfaas delete NAME`), or ask the operator for a higher MFAAS_TENANT_FUNCTIONS.";
    MF0920 "The call token was revoked.", "Ask the function's tenant for another token: `mfaas token create --call FUNCTION`.";
    MF0921 "The call tokens are over already.", "There is nothing to revoke: a call token opens nothing after its end.";
    MF0922 "No further call tokens can be revoked for now.", "Revoke all tokens of a caller at once with `mfaas token revoke --caller NAME`; an admin ends every call token of the site with `mfaas token rotate-key --leaked`.";

    MF1001 "A part of the backup is missing or damaged.", "Nothing of the site was changed: restore another backup of the directory with `--at NAME`, or a copy of this one.";
    MF1002 "The backup was made by a newer release.", "Restore it with the release that it names, or a later one.";
    MF1003 "There is a site in the database already.", "Restore into an empty database; or stop the site and say `--replace`, which gives up everything that it knows.";
    MF1004 "Programs are connected to the database that is to be replaced.", "Stop servers, signer, builders and acquirer of the site, and repeat.";
    MF1005 "A restore into this home has not ended.", "Run `mfaas restore` again; to begin an empty site instead, remove the file `restoring` of the home.";
    MF1006 "Keys of the site are missing in this home.", "Copy what is named from where the site's keys are kept; a backup never holds any.";

    MF1101 "The isolation controller does not take this from the program that asks.", "Ask as root, or as a user that MFAAS_PRIMARY_USERS or MFAAS_SECONDARY_USERS names; a process is placed by itself or by what started it.";
    MF1102 "As many processes are placed as can be.", "Wait until some of them have ended; `mfaas node isolation status` shows all.";
    MF1103 "The isolation controller cannot do what it is asked.", "The message says what is possible on this machine.";
    MF1104 "The isolation controller failed.", "What it was doing is in the message and its log; free the disk or bring back what is named, and repeat.";
    MF1105 "No isolation controller answers on this machine.", "Start mfaas-isolation, or name its socket with --socket or MFAAS_ISOLATION_SOCKET.";

    MF1201 "The tenant was not granted the resource.", "Ask an operator: `mfaas resource grant NAME --tenant TENANT --access read`, or `write`.";
    MF1202 "The call uses more of its data than it may.", "Read and change less in one call; the message names the limit.";
    MF1203 "The value is not a number that can be incremented.", "Increment whole numbers of 64 bits alone, and set others with `put`.";
    MF1204 "Other calls changed the same data again and again.", "Try again after the time named in Retry-After; let calls that run at the same time change different keys.";
    MF1205 "The data cannot be reached at the moment.", "Try again after the time named in Retry-After: the call changed nothing.";
    MF1206 "It is not known whether the call's changes took effect.", "Read what the call was to change before you try again.";
    MF1207 "The operation is none that the binding has.", "Update the node and its broker to the release that built the function, or deploy it again.";
    MF1208 "The resource holds as much as it may.", "Delete what is not needed any more, or ask an operator to raise MFAAS_DATA_RESOURCE_MIB.";
    MF1209 "The function would call itself.", "Let no function call another one that calls it, also not by way of others; `mfaas graph NAME` shows whom a function calls.";
    MF1210 "The function that was called has not answered.", "The message says why; look at the log of the function that was called.";
    MF1211 "The call may not make another one.", "Let functions call each other less deeply: put what several of them do into one.";
    MF1212 "What is at the path is not what the operation is for.", "Look with `open` or `list` what is there; `open_or_create` makes a file and the directories above it.";
    MF1213 "What the call changed did not take effect, but for what it did at once.", "Look at what it wrote to files and asked servers and functions of other tenants for before you try again.";
    MF1214 "The request is none that a function may send.", "The message says what of it: the method, the path or a header.";
    MF1215 "The server has not answered.", "Look whether it is there, and whether the request arrived, before you try again.";
    MF1216 "The answer may show a secret, and is withheld.", "Ask for something that does not repeat what was sent, and is not compressed.";
    MF1217 "The server is where functions may not go.", "If it is meant to be there, an operator adds its network to MFAAS_HTTP_FILE.";
    MF1218 "The call would change data of several stores.", "Change data of one store in one call, with the functions that it calls; an operator says which resources lie together.";
    MF1219 "The function of another tenant does not let this one call it.", "Ask its owner to name your tenant in its `callers` and to deploy it, or to make it `public`.";
    MF1220 "The assets of the function have more bytes than one of its class may have.", "Bind smaller ones, or make it a function of class `bulk`: what each class may have is in docs/functions.md.";
    MF1221 "An asset is made of a file, and other resources are not.", "mfaas resource create NAME --kind asset --file PATH; what is in a file never changes, so other bytes take another name.";
    MF1222 "This site calls no functions for changes of objects.", "Ask an operator: MFAAS_EVENTS_DATABASE_URL tells the server where events are.";
    MF1223 "Changes of the resource are no events.", "Name a resource of the kind `object`; `mfaas resource list` shows those of your tenant.";
}
