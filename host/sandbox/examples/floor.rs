#![allow(missing_docs, clippy::all, clippy::unwrap_used, clippy::panic)]
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tollgate_agent::catalog::*;
use tollgate_agent::context::*;
use tollgate_agent::gate::*;
use tollgate_agent::outcome::Outcome;
use tollgate_agent::proposal::*;
use tollgate_agent::state::State;
use tollgate_sandbox::*;
use wasmtime::Store;
use wasmtime::component::{Linker, ResourceTable};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

mod b {
    wasmtime::component::bindgen!({ path: "../../wit", world: "tollgate:tool/tool-component",
        ownership: Borrowing { duplicate_if_necessary: true }, exports: { default: async } });
}
struct H {
    ctx: Option<WasiCtx>,
    table: ResourceTable,
}
impl WasiView for H {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: self.ctx.get_or_insert_with(Default::default), table: &mut self.table }
    }
}
impl b::tollgate::tool::types::Host for H {}
impl b::tollgate::tool::call::Host for H {
    fn report_activity(&mut self, _: String, _: String) {}
    fn report_activity_delta(&mut self, _: String, _: String) {}
    fn report_progress(
        &mut self,
        _: b::tollgate::tool::call::ProgressStatus,
        _: Option<String>,
        _: Option<f64>,
    ) {
    }
    fn stream_output(&mut self, _: String) {}
    fn log(&mut self, _: b::tollgate::tool::call::Level, _: String) {}
    fn read_state(&mut self, _: String) -> Option<String> {
        None
    }
    fn is_cancelled(&mut self) -> bool {
        false
    }
}

fn main() {
    let guest = std::env::args().nth(1).unwrap_or("echo".into());
    let bytes = if guest.ends_with(".wasm") {
        std::fs::read(&guest).unwrap()
    } else {
        tollgate_artifacts::good::ECHO.bytes()
    };
    let rt = runtime().unwrap();
    let h = rt.handle().clone();
    rt.block_on(async move { h.spawn(go(bytes)).await.unwrap() });
}

async fn go(bytes: Vec<u8>) {
    let sandbox = Sandbox::new(SandboxConfig::default()).unwrap();
    eprintln!("notice {:?}", sandbox.notice());
    let t = Instant::now();
    let component = sandbox.load_bytes("x", bytes.clone()).await.unwrap();
    eprintln!("load {:?}", t.elapsed());
    let engine = sandbox.engine();
    let compiled = wasmtime::component::Component::from_binary(engine, &bytes).unwrap();
    let mut linker: Linker<H> = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker).unwrap();
    b::ToolComponent::add_to_linker::<_, wasmtime::component::HasSelf<_>>(&mut linker, |h| h).unwrap();
    let pre = b::ToolComponentPre::new(linker.instantiate_pre(&compiled).unwrap()).unwrap();
    let mut catalog = Catalog::default();
    catalog
        .add(
            Owner {
                id: component.descriptor().id.clone(),
                kind: OwnerKind::Component,
                origin: "x".into(),
                version: "1".into(),
            },
            component.descriptor().clone(),
            &CatalogGrants::default(),
        )
        .unwrap();
    let identity = RunIdentity {
        run_id: "run-1".into(),
        thread_id: "t".into(),
        agent_id: "direct".into(),
        ..Default::default()
    };
    let agent = AgentView { id: "direct".into(), ..Default::default() };
    let tool = component.descriptor().tools[0].name.clone();
    let limits = Limits::default();
    let grants = Grants::default();
    for size in [100usize, 10 * 1024, 1024 * 1024] {
        let arguments = Arguments::from_value(json!({"text": "x".repeat(size)}));
        let proposal = Proposal::check(&catalog, |_| true, "c", &tool, &arguments).unwrap();
        let Judgement::Permitted(permit) = judge(proposal, &[Recorded::new("t", Verdict::Allow)]) else {
            panic!()
        };
        let n = if size > 100_000 { 300 } else { 5000 };
        let state = State::default().snapshot();
        let reports: Arc<dyn ReportSink> = Arc::new(());
        let mut best = [f64::MAX; 2];
        for _ in 0..7 {
            let t = Instant::now();
            for _ in 0..n {
                let mut store = Store::new(engine, H { ctx: None, table: ResourceTable::new() });
                store.set_fuel(u64::MAX / 2).unwrap();
                store.set_epoch_deadline(1_000_000);
                use b::tollgate::tool::types as ty;
                let tool_i = pre.instantiate_async(&mut store).await.unwrap();
                let r = tool_i
                    .tollgate_tool_tool()
                    .call_execute(
                        &mut store,
                        arguments.text(),
                        ty::ToolCallContext {
                            call_id: "c",
                            tool_name: &tool,
                            run_identity: ty::RunIdentity {
                                run_id: "run-1",
                                thread_id: "t",
                                agent_id: "direct",
                                parent_run_id: None,
                                parent_thread_id: None,
                                parent_call_id: None,
                            },
                            agent: ty::AgentView { id: "direct", description: None, delegates: &[] },
                            snapshot: ty::Snapshot { revision: 0, values: &[] },
                            deadline_ms: 1,
                            attempt: 1,
                            resume: None,
                        },
                    )
                    .await
                    .unwrap()
                    .unwrap();
                std::hint::black_box(r.result.data.len());
            }
            best[0] = best[0].min(t.elapsed().as_secs_f64() / n as f64 * 1e6);
            let t = Instant::now();
            for _ in 0..n {
                let a = component
                    .call(Call {
                        permit: &permit,
                        identity: &identity,
                        agent: &agent,
                        snapshot: &state,
                        keys: catalog.keys(),
                        attempt: 1,
                        resume: None,
                        limits: &limits,
                        timeout: Duration::from_secs(15),
                        grants: &grants,
                        reports: reports.clone(),
                        cancel: CancellationToken::new(),
                    })
                    .await;
                assert!(matches!(a.outcome, Outcome::Returned(_)));
            }
            best[1] = best[1].min(t.elapsed().as_secs_f64() / n as f64 * 1e6);
        }
        println!("{size}: floor {:.2} us, call {:.2} us, ratio {:.2}", best[0], best[1], best[1] / best[0]);
    }
}
