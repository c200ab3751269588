//! `/sources` and `/sources/{name}`: who sends, whether it is verified, and how to set it up at the vendor.

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use oncebox::source::Source;

use super::super::admin::Admin;
use super::pages::{PageError, Visit, page};
use crate::config::units::show_duration;
use crate::view::RejectionView;

#[derive(Template)]
#[template(path = "sources.html")]
struct SourcesPage {
    visit: Visit,
    rows: Vec<SourceRow>,
}

struct SourceRow {
    name: String,
    provider: String,
    title: String,
    verified: bool,
    secrets: usize,
}

#[derive(Template)]
#[template(path = "source.html")]
struct SourcePage {
    visit: Visit,
    row: SourceRow,
    url: String,
    guide: Guide,
    rejections: Vec<RejectionView>,
}

/// What the catalogue says about the provider.
struct Guide {
    setup: String,
    facts: Vec<(&'static str, String)>,
    docs: String,
}

/// Every configured source.
pub(super) async fn list(State(admin): State<Admin>, visit: Visit) -> Result<Response, PageError> {
    let setup = admin.setup();
    let mut rows: Vec<SourceRow> = setup.sources.values().map(|source| SourceRow::new(source)).collect();
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    page(&SourcesPage { visit, rows })
}

/// One source with its guide.
pub(super) async fn one(
    State(admin): State<Admin>,
    visit: Visit,
    Path(name): Path<String>,
) -> Result<Response, PageError> {
    let setup = admin.setup();
    let source = setup.sources.get(&name).ok_or_else(PageError::not_found)?;
    let latest = admin.rejections().latest(oncebox::limits::REJECTIONS_MAX).into_iter();
    let rejections = latest.filter(|one| one.source == name).take(5).map(Into::into).collect();
    let token = if source.has_path_token() { "/TOKEN" } else { "" };
    page(&SourcePage {
        url: format!("/in/{name}{token}"),
        row: SourceRow::new(source),
        guide: Guide::new(source),
        rejections,
        visit,
    })
}

impl SourceRow {
    fn new(source: &Source) -> Self {
        Self {
            name: source.name().to_owned(),
            provider: source.provider().to_owned(),
            title: source.description().facts().title.to_owned(),
            verified: !source.is_unverified(),
            secrets: source.secrets_count(),
        }
    }
}

impl Guide {
    fn new(source: &Source) -> Self {
        let facts = source.description().facts();
        let span = |span: Option<std::time::Duration>| match span {
            None => "not known".to_owned(),
            Some(span) if span.is_zero() => "does not".to_owned(),
            Some(span) => show_duration(span),
        };
        let open = facts.not_covered.join("; ");
        let lines = [
            ("Secret", facts.secret_hint.to_owned()),
            ("Signature", facts.signature.clone()),
            ("An event is", facts.identity.clone()),
            ("Its type", facts.event_type.clone()),
            ("Not covered", if open.is_empty() { "nothing of body, id and time".to_owned() } else { open }),
            ("Handshakes", facts.handshakes.join("; ")),
            ("Retries for", span(facts.retry_window)),
            ("Answer within", span(facts.deadline)),
        ];
        Self {
            setup: facts.setup.to_owned(),
            facts: lines.into_iter().filter(|(_, text)| !text.is_empty()).collect(),
            docs: facts.docs.to_owned(),
        }
    }
}
