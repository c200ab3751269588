//! The dashboard: its pages and its forms.

mod forms;
mod pages;
