//! Rules about who may do what. So far: who asks, and under which host name.

pub mod host;
pub mod principal;
