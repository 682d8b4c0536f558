#![no_main]

fuzz::fuzz!("export");
