#![no_main]

fuzz::fuzz!("compile_log");
