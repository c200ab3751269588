//! One file for each scheme that data cannot describe.

pub(super) mod adyen;
pub(super) mod braintree;
pub(super) mod builtin;
pub(super) mod contentful;
pub(super) mod dropbox_sign;
pub(super) mod mandrill;
pub(super) mod paypal;
pub(super) mod sns;
pub(super) mod twilio;
