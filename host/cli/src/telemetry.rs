//! Sends spans to an OpenTelemetry collector, by OTLP over HTTP. Requires the feature `otel`.
//!
//! The standard variables of OpenTelemetry configure the destination:
//! `OTEL_EXPORTER_OTLP_ENDPOINT` or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, along with
//! `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_SERVICE_NAME`, `OTEL_TRACES_SAMPLER` and the like.
//! Without an endpoint nothing is sent. Spans contain names, ids, codes and costs, never
//! arguments, results or prompts.

use async_trait::async_trait;
use futures::TryStreamExt as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response, ResponseBodyTooLarge};
use opentelemetry_otlp::{Protocol, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use std::time::Duration;
use tokio::runtime::Handle;
use tollgate::models::http_client;
use tracing::{Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
/// The service name of this program, unless `OTEL_SERVICE_NAME` overrides it.
const SERVICE_NAME: &str = "tollgate";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum number of bytes read from a collector's answer.
const MAX_ANSWER_BYTES: usize = 64 << 10;
/// The time limit for sending the last spans.
const LAST_SPANS: Duration = Duration::from_secs(5);

/// An exporter that sends the spans of this process to a collector.
#[derive(Debug)]
pub(crate) struct Export {
    provider: SdkTracerProvider,
}

/// The reason why spans cannot be sent.
#[derive(Debug, thiserror::Error)]
#[error("spans are not sent: {0}; correct OTEL_EXPORTER_OTLP_ENDPOINT, or unset it")]
pub(crate) struct ExportError(String);

impl Export {
    /// Creates an exporter from the environment; `None` if no collector is configured. Requests
    /// are made on this runtime.
    ///
    /// # Errors
    /// The environment variables are not valid.
    pub(crate) fn from_environment(runtime: &Handle) -> Result<Option<Self>, ExportError> {
        let named = |name: &&str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let Some(endpoint) = ENDPOINTS.iter().find_map(named) else { return Ok(None) };
        let endpoint =
            endpoint.parse().map_err(|e| ExportError(format!("\"{endpoint}\" is not a valid URL ({e})")))?;
        let client = http_client(&endpoint, CONNECT_TIMEOUT).map_err(|e| ExportError(e.to_string()))?;
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_http_client(ExporterClient { client, runtime: runtime.clone() })
            .build()
            .map_err(|e| ExportError(e.to_string()))?;
        let mut resource = Resource::builder();
        if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name(SERVICE_NAME);
        }
        let provider = SdkTracerProvider::builder()
            .with_resource(resource.build())
            .with_batch_exporter(exporter)
            .build();
        Ok(Some(Self { provider }))
    }

    /// Returns a layer for a tracing subscriber that sends its spans.
    pub(crate) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        // Leave out requests to the collector itself.
        let ours = filter_fn(|told| {
            told.is_span() && told.target().starts_with("tollgate") && *told.level() <= Level::INFO
        });
        let tracer = self.provider.tracer(SERVICE_NAME);
        let layer = tracing_opentelemetry::layer().with_tracer(tracer);
        layer.with_location(false).with_threads(false).with_tracked_inactivity(false).with_filter(ours)
    }

    /// Sends the remaining spans and ends. Call it from a thread that runs no tasks, while the
    /// runtime exists.
    ///
    /// # Errors
    /// The collector did not accept the spans.
    pub(crate) fn shutdown(self) -> Result<(), ExportError> {
        self.provider.shutdown_with_timeout(LAST_SPANS).map_err(|e| ExportError(e.to_string()))
    }
}

/// The shared HTTP client, with one TLS provider and one set of roots.
#[derive(Debug)]
struct ExporterClient {
    client: reqwest::Client,
    runtime: Handle,
}

#[async_trait]
impl HttpClient for ExporterClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let request = reqwest::Request::try_from(request)?;
        let client = self.client.clone();
        // The caller's thread has no runtime.
        self.runtime.spawn(async move { answer(client.execute(request).await?).await }).await?
    }
}

async fn answer(response: reqwest::Response) -> Result<Response<Bytes>, HttpError> {
    let status = response.status();
    let headers = response.headers().clone();
    let body =
        response.bytes_stream().map_err(HttpError::from).try_fold(Vec::new(), async |mut body, piece| {
            body.extend_from_slice(&piece);
            if body.len() > MAX_ANSWER_BYTES { Err(ResponseBodyTooLarge::new().into()) } else { Ok(body) }
        });
    let mut answered = Response::new(Bytes::from(body.await?));
    *answered.status_mut() = status;
    *answered.headers_mut() = headers;
    Ok(answered)
}
