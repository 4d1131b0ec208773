//! Rules about who may do what. So far: who asks.

pub mod principal;
