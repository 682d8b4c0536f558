#![no_main]

fuzz::fuzz!("rules");
