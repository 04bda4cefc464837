//! Mixture of experts: route, dispatch, combine.

pub mod status;
