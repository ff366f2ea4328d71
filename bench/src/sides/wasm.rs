//! wasmtime: a module that was compiled before, a fresh instance for each call out of a pool.
//!
//! The module is written by hand (`functions/function.wat`), since the compiler's target for
//! WebAssembly is rarely installed: the same work, checked by the same verification. It must never
//! reuse an instance.

use super::{Side, Timing};
use crate::functions::Kind;

/// The text of the module; the table of SHA-512's constants is put in when it is compiled.
pub const MODULE: &str = include_str!("../../functions/function.wat");

/// Where the module keeps things, in its memory.
pub const REQUEST_AT: usize = 0;
/// The answer: who it is, then the result.
pub const ANSWER_AT: usize = 2048;

/// The module's text with its tables.
pub fn module_text() -> String {
    use crate::function::sha512::{ROUND_CONSTANTS, START};
    let bytes: String = ROUND_CONSTANTS
        .iter()
        .chain(&START)
        .flat_map(|word| word.to_le_bytes())
        .map(|byte| format!("\\{byte:02x}"))
        .collect();
    MODULE.replace("@TABLES@", &bytes)
}

#[cfg(feature = "wasmtime")]
pub use real::Wasm;

#[cfg(feature = "wasmtime")]
mod real {
    use anyhow::{Context as _, ensure};
    use wasmtime::{
        Config, Engine, InstanceAllocationStrategy, InstancePre, Linker, Module, PoolingAllocationConfig,
        Store,
    };

    use super::{ANSWER_AT, Kind, REQUEST_AT, Side, Timing, module_text};
    use crate::function::ANSWER_BYTES;
    use crate::functions::{request, verified};
    use crate::sys::stamp;

    /// Instances in the pool.
    const INSTANCES: u32 = 16;
    /// How much of a memory is wiped in place and not given back to the kernel, in bytes: its one
    /// page, which makes wasmtime twice as fast here as its default does.
    const KEPT_BYTES: usize = 64 << 10;
    const MEMORY_BYTES_MAX: usize = 1 << 20;

    /// An engine with one module.
    pub struct Wasm {
        engine: Engine,
        module: InstancePre<()>,
        kind: Kind,
        number: u64,
    }

    impl Wasm {
        /// Compiles the module.
        pub fn new(kind: Kind) -> anyhow::Result<Self> {
            let mut pool = PoolingAllocationConfig::default();
            pool.total_core_instances(INSTANCES).total_memories(INSTANCES).max_memory_size(MEMORY_BYTES_MAX);
            pool.linear_memory_keep_resident(KEPT_BYTES);
            let mut config = Config::new();
            config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool)).memory_init_cow(true);
            let engine = Engine::new(&config).map_err(|e| anyhow::anyhow!("an engine: {e:#}"))?;
            let module = Module::new(&engine, module_text())
                .map_err(|e| anyhow::anyhow!("compile the module: {e:#}"))?;
            let module = Linker::new(&engine)
                .instantiate_pre(&module)
                .map_err(|e| anyhow::anyhow!("link the module: {e:#}"))?;
            Ok(Self { engine, module, kind, number: 0 })
        }

        fn run(&self, request: &[u8; 64], answer: &mut [u8; ANSWER_BYTES]) -> anyhow::Result<usize> {
            let told = |e: wasmtime::Error| anyhow::anyhow!("call the module: {e:#}");
            let mut store = Store::new(&self.engine, ());
            let instance = self.module.instantiate(&mut store).map_err(told)?;
            let memory = instance.get_memory(&mut store, "memory").context("the module's memory")?;
            memory.data_mut(&mut store)[REQUEST_AT..REQUEST_AT + 64].copy_from_slice(request);
            let run = instance.get_typed_func::<(i32, i64, i64), i32>(&mut store, "run").map_err(told)?;
            let parameters = (self.kind.kind as i32, 0, self.kind.rounds as i64);
            let bytes = run.call(&mut store, parameters).map_err(told)? as usize;
            ensure!(bytes <= ANSWER_BYTES, "an answer of {bytes} bytes");
            answer[..bytes].copy_from_slice(&memory.data(&store)[ANSWER_AT..ANSWER_AT + bytes]);
            Ok(bytes)
        }
    }

    impl Side for Wasm {
        fn protections(&self) -> String {
            "wasmtime: bounds of linear memory, a fresh instance; no limit of time".to_owned()
        }

        fn call(&mut self, _function: u64) -> anyhow::Result<Timing> {
            self.number += 1;
            let request = request(self.number);
            let mut answer = [0; ANSWER_BYTES];
            let sent = stamp();
            let bytes = self.run(&request, &mut answer)?;
            let answered = stamp();
            verified(&self.kind.constants(0), &request, &answer[..bytes])?;
            Ok(Timing { sent, answered })
        }
    }
}

/// The side, or why there is none.
pub fn side(kind: Kind) -> anyhow::Result<Box<dyn Side>> {
    #[cfg(feature = "wasmtime")]
    return Ok(Box::new(Wasm::new(kind)?));
    #[cfg(not(feature = "wasmtime"))]
    {
        let (_, _): (Kind, Option<Timing>) = (kind, None);
        anyhow::bail!("the program was built without its feature wasmtime")
    }
}
