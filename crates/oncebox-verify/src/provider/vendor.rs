//! One file for each scheme that data cannot describe.

pub(crate) mod adyen;
pub(crate) mod braintree;
pub(crate) mod builtin;
pub(crate) mod contentful;
pub(crate) mod dropbox_sign;
pub(crate) mod mandrill;
pub(crate) mod paypal;
pub(crate) mod sns;
pub(crate) mod twilio;
