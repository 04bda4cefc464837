//! The linear scan's conformance suite.

mod accuracy;
mod backward;
mod backward_errors;
mod determinism;
mod errors;
mod huge;
mod options;
mod packed;
mod shapes;
mod special_values;
mod stream;

use ferroseq::ops::Layout;

/// Both memory layouts, both directions.
const ORDERS: [(Layout, bool); 4] = [
    (Layout::Bld, false),
    (Layout::Bld, true),
    (Layout::Bdl, false),
    (Layout::Bdl, true),
];
