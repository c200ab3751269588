//! `oncebox serve`: the gateway.

use std::net::SocketAddr;
use std::process::ExitCode;

use oncebox::gateway::fault::Faults;

use crate::cli::ServeArgs;
use crate::config::Config;
use crate::observe::spans::Spans;
use crate::observe::telemetry;
use crate::serve::Server;
use crate::serve::signals::Signals;

pub(crate) async fn run(args: &ServeArgs, log: &str) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::listen()?;
    let config = Config::load(&args.config.config, &args.config.overrides())?;
    let spans = Spans::start(&config.telemetry)?;
    let _last_lines = telemetry::init_logs(config.log, log, &spans)?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let metrics = telemetry::init_metrics()?;
    let Some(server) = signals.unless_stopped(Server::open(&config, faults()?)).await else {
        tracing::info!("stopped before it served");
        return Ok(ExitCode::SUCCESS);
    };
    let server = server?;
    let at = (server.public_address()?, server.admin_address()?);
    println!("{}", banner(&config, at));
    tell_start(&config, &server, at);
    let served =
        server.run(signals, metrics, || Ok(Config::load(&args.config.config, &args.config.overrides())?)).await;
    spans.stop().await;
    served?;
    Ok(ExitCode::SUCCESS)
}

/// Fault points for test rigs; a build without them refuses the variable.
fn faults() -> anyhow::Result<Faults> {
    match std::env::var("ONCEBOX_FAULTS") {
        Ok(plan) => Faults::parse(&plan).map_err(anyhow::Error::msg),
        Err(_) => Ok(Faults::none()),
    }
}

/// What started, for whoever reads the log alone. Addresses of others may hold secrets, so they are only counted.
fn tell_start(config: &Config, server: &Server, (public, admin): (SocketAddr, SocketAddr)) {
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        listen = %public,
        admin_listen = %admin,
        database = server.store.kind(),
        sources = config.sources.len(),
        handlers = config.handlers.len(),
        destinations = config.destinations.len(),
        alerts = config.alerts.len(),
        "started"
    );
}

fn banner(config: &Config, (public, admin): (SocketAddr, SocketAddr)) -> String {
    let mut lines = vec![
        format!("oncebox {}", env!("CARGO_PKG_VERSION")),
        format!("  webhooks  http://{public}/in/{{source}}"),
        format!("  admin     http://{admin}   (dashboard and API)"),
        format!("  database  {}", config.store.url),
    ];
    for source in &config.sources {
        let by_token = source.spec().path_token.is_some() && source.spec().secrets.is_empty();
        let signs = source.spec().description.signs() && !source.spec().description.brings_secret();
        let insecure = if source.spec().unverified || by_token && signs { "   NOT VERIFIED" } else { "" };
        lines.push(format!("  source    {} ({}){insecure}", source.spec().name, source.spec().provider));
    }
    for handler in &config.handlers {
        lines.push(format!("  handler   {} ({})", handler.name(), handler.kind.as_str()));
    }
    lines.extend(config.destinations.iter().map(|one| format!("  destination {}", one.name)));
    lines.extend(config.alerts.iter().map(|one| format!("  alert     {}", one.name)));
    lines.join("\n")
}
