//! Values out of bytes: JSON, forms and XML.

pub(super) mod form;
pub(crate) mod json;
pub(super) mod xml;
