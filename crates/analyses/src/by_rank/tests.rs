use super::outline::Outline;
use super::reach::Reach;
use std::sync::Arc;

#[test]
fn show() {
    let outline = Arc::new(Outline::default());
    let context = crate::session::context(1, Arc::default(), Arc::clone(&outline) as _).unwrap();
    let state = crate::planning::for_views(&context.state(), true);
    let catalog = crate::catalog();
    let modules: Vec<_> = catalog.modules().iter().collect();
    let params =
        modules.iter().flat_map(|m| &m.params).map(|p| (p.name.clone(), p.scalar(None))).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
    let start = std::time::Instant::now();
    let reaches = runtime
        .block_on(async move {
            tokio::spawn(async move { outline.reaches(&state, &modules, &params).await })
                .await
                .unwrap()
        })
        .unwrap();
    println!("{:?}", start.elapsed());
    for (v, r) in &reaches {
        println!(
            "{v} {}",
            match r {
                Reach::Run => "RUN".to_owned(),
                r => format!("{r:?}"),
            }
        );
    }
}
