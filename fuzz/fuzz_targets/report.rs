#![no_main]

fuzz::fuzz!("report");
