//! Values out of bytes: JSON, forms and XML.

pub(super) mod form;
pub(super) mod json;
pub(super) mod pointer;
pub(super) mod xml;
