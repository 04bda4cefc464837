//! The binary starts without a driver.
