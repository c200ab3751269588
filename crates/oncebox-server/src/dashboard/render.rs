//! What pages are made of: their frame, texts, links, charts, and the files beside them.

pub(super) mod assets;
pub(super) mod chart;
pub(super) mod curl;
pub(super) mod format;
pub(super) mod link;
pub(super) mod page;
pub(super) mod tree;

pub(super) use format::When;
pub(super) use link::Link;
pub(super) use page::{PageError, Params, Shown, Visit, page, page_with};
