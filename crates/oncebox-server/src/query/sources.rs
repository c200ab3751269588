//! Sources: what came, which secrets are in use, what to give to the vendor and what to click there.

use oncebox::gateway::limits::{PAGE_EXAMINED_MAX, PAGE_MAX};
use oncebox::gateway::store::Recent;
use oncebox_verify::Source;
use serde::{Deserialize, Serialize};

use super::context::QueryContext;
use super::{Result, not_our_cursor, page_limit};
use crate::observe::rejections::Rejected;
use crate::query::guide;
use crate::query::view::{GuideView, Items, RejectionView, SecretUseView, SourceDetailView, SourceView, time};

/// The secret of a source that has none but its path token.
const BY_TOKEN: &str = "none but the token at the end of the URL, which the config has as path_token";

/// All of them, those first that the config names; one that was removed is shown while its newest events are.
pub(crate) async fn sources(context: &QueryContext) -> Result<Vec<SourceView>> {
    Ok(sources_of(context, &context.store.recent(None, None, PAGE_EXAMINED_MAX).await?))
}

/// One of the config's, with its guide.
pub(crate) async fn source(context: &QueryContext, name: &str) -> Result<Option<SourceDetailView>> {
    let Some(source) = context.setup.sources.get(name) else { return Ok(None) };
    let recent = context.store.recent(None, None, PAGE_EXAMINED_MAX).await?;
    let facts = source.description().facts();
    let by_token = source.has_path_token() && source.secrets_count() == 0;
    let secret_hint = if by_token { BY_TOKEN } else { facts.secret_hint };
    let line = |(label, text): (&str, String)| match label {
        "secret" => (label.to_owned(), secret_hint.to_owned()),
        _ => (label.to_owned(), text),
    };
    let lines = guide::lines_in_words(&facts).into_iter().map(line).collect();
    let guide = GuideView {
        title: facts.title.to_owned(),
        setup: facts.setup.to_owned(),
        secret_hint: secret_hint.to_owned(),
        docs: facts.docs.to_owned(),
        lines,
        config: guide::config(name, source.provider(), source.description(), source.has_path_token()),
    };
    Ok(Some(SourceDetailView { source: view(context, source, &recent), guide }))
}

/// Which rejections.
#[derive(Clone, Debug, Default, Serialize, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct RejectionsQuery {
    /// Exactly this source.
    pub(crate) source: Option<String>,
    /// At most so many.
    #[param(minimum = 1, maximum = 1000)]
    pub(crate) limit: Option<usize>,
    /// Where the page before ended.
    pub(crate) cursor: Option<String>,
}

/// A page of the last rejections of this node, newest first; its cursor is the number of the last one.
pub(crate) fn rejections(context: &QueryContext, query: &RejectionsQuery) -> Result<Items<RejectionView>> {
    let limit = page_limit(query.limit.or(Some(PAGE_MAX)))?;
    let before = query.cursor.as_deref().map(str::parse).transpose().map_err(|_forged| not_our_cursor())?;
    let found = context.rejections.latest(query.source.as_deref(), before, limit + 1);
    Ok(Items::cut(found, limit, |(number, _)| number.to_string(), |(_, rejected)| rejection(context, rejected)))
}

/// So many of them, of every source or of one.
pub(crate) fn latest_rejections(context: &QueryContext, of: Option<&str>, limit: usize) -> Vec<RejectionView> {
    context.rejections.latest(of, None, limit).into_iter().map(|(_, rejected)| rejection(context, rejected)).collect()
}

/// One of them, with what its source says about the cause.
pub(crate) fn rejection(context: &QueryContext, rejected: Rejected) -> RejectionView {
    let source = context.setup.sources.get(&rejected.source).cloned();
    RejectionView::of(rejected, source.as_deref())
}

/// The same from numbers that are at hand.
pub(super) fn sources_of(context: &QueryContext, recent: &Recent) -> Vec<SourceView> {
    let mut views: Vec<SourceView> =
        context.setup.sources.values().map(|source| view(context, source, recent)).collect();
    views.sort_by(|a, b| a.name.cmp(&b.name));
    let mut gone: Vec<&str> = recent.events.iter().map(|one| one.source.as_str()).collect();
    gone.retain(|name| !context.setup.sources.contains_key(*name));
    gone.sort_unstable();
    gone.dedup();
    views.extend(gone.into_iter().map(|name| counted(SourceView::removed(name), recent)));
    views
}

fn view(context: &QueryContext, source: &Source, recent: &Recent) -> SourceView {
    let name = source.name();
    let path = format!("/in/{name}{}", if source.has_path_token() { "/{token}" } else { "" });
    let secrets = (1..=source.secrets_count()).map(|position| {
        let used = context.traffic.secret(name, position);
        SecretUseView {
            position,
            matches: used.map_or(0, |used| used.matches),
            last_matched_at: used.map(|used| time(used.last_at)),
        }
    });
    let view = SourceView {
        name: name.to_owned(),
        provider: source.provider().to_owned(),
        configured: true,
        public_url: context.public.url.as_ref().map(|url| format!("{url}{path}")),
        url: path,
        secrets: source.secrets_count(),
        secret_uses: secrets.collect(),
        verified: !source.is_unverified(),
        awaits_secret: source.awaits_secret(),
        last_hour: context.traffic.last_hour(name),
        ..SourceView::default()
    };
    counted(view, recent)
}

fn counted(mut view: SourceView, recent: &Recent) -> SourceView {
    for one in recent.events.iter().filter(|one| one.source == view.name) {
        view.events += one.events;
        view.arrivals += one.events + one.repeats;
        match one.state.as_str() {
            "held" => view.held += one.events,
            "conflict" => view.conflicts += one.events,
            _ => {}
        }
    }
    view
}
