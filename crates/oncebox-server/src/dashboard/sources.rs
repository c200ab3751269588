//! `/sources` and `/sources/{name}`: who sends, which secrets are in use, and how to set it up at the vendor.

use askama::Template;
use axum::extract::Path;

use super::render::{Link, PageError, Shown, Visit, When, page};
use crate::admin::Admin;
use crate::query::sources;
use crate::query::view::{GuideView, RejectionView, SecretUseView, SourceView};

/// Rejections that the page of a source shows.
const REJECTIONS: usize = 5;

#[derive(Template)]
#[template(path = "sources.html")]
struct SourcesPage {
    visit: Visit,
    rows: Vec<SourceView>,
}

#[derive(Template)]
#[template(path = "source.html")]
struct SourcePage {
    visit: Visit,
    source: SourceView,
    secrets: Vec<Secret>,
    guide: GuideView,
    rejections: Vec<(When, RejectionView)>,
    events: Link,
    /// A command that sends it something signed.
    sample: Option<String>,
}

/// How one secret is used. Its value is shown to nobody.
struct Secret {
    usage: SecretUseView,
    last: Option<When>,
}

pub(super) async fn list(admin: Admin, visit: Visit) -> Shown {
    page(&SourcesPage { rows: sources::sources(&admin.context()).await?, visit })
}

pub(super) async fn one(admin: Admin, visit: Visit, Path(name): Path<String>) -> Shown {
    let detail = sources::source(&admin.context(), &name).await?.ok_or_else(PageError::not_found)?;
    let latest = sources::latest_rejections(&admin.context(), Some(&name), REJECTIONS).into_iter();
    let rejections = latest.map(|one| (When::read(&one.at, visit.now), one)).collect();
    let source = admin.setup().sources.get(&name).cloned();
    let secret = |usage: &SecretUseView| Secret {
        last: When::maybe(usage.last_matched_at.as_deref(), visit.now),
        usage: usage.clone(),
    };
    page(&SourcePage {
        secrets: detail.source.secret_uses.iter().map(secret).collect(),
        guide: detail.guide,
        events: Link::to("/events").with("source", &name),
        sample: source.and_then(|source| admin.context().sample_of(&source)),
        source: detail.source,
        rejections,
        visit,
    })
}
