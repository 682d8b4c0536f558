//! How plans travel between client, scheduler and executors.

use std::sync::Arc;

use ballista_core::serde::BallistaPhysicalExtensionCodec;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};

use crate::operator::MapRanksExec;

/// Start of the bytes of our operator. Those of Ballista are messages, which never start with this byte.
const TAG: &[u8] = b"\0trace-advisor map\0";

/// Encodes our operator, and leaves the others to Ballista.
#[derive(Debug, Default)]
pub(crate) struct MapCodec {
    ballista: BallistaPhysicalExtensionCodec,
}

impl PhysicalExtensionCodec for MapCodec {
    fn try_decode(
        &self,
        buf: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        ctx: &TaskContext,
        proto_converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(message) = buf.strip_prefix(TAG) else {
            return self.ballista.try_decode(buf, inputs, ctx, proto_converter);
        };
        let [shards] = inputs else {
            return Err(DataFusionError::Internal(format!("{} inputs, not one", inputs.len())));
        };
        Ok(Arc::new(MapRanksExec::new(message.into(), Arc::clone(shards))))
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        proto_converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let Some(map) = node.downcast_ref::<MapRanksExec>() else {
            return self.ballista.try_encode(node, buf, proto_converter);
        };
        buf.extend_from_slice(TAG);
        buf.extend_from_slice(map.message());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use datafusion_proto::physical_plan::AsExecutionPlan as _;
    use datafusion_proto::protobuf::PhysicalPlanNode;
    use prost::Message as _;

    use super::*;
    use crate::job::MapJob;
    use crate::operator::plan;

    #[test]
    fn decoded_plan_is_the_one_that_was_encoded() {
        let codec = MapCodec::default();
        let job = MapJob { run: "run".into(), shard_count: 5, ..MapJob::default() };
        let message = PhysicalPlanNode::try_from_physical_plan(plan(&job).unwrap(), &codec);
        let decoded =
            message.unwrap().try_into_physical_plan(&TaskContext::default(), &codec).unwrap();
        assert_eq!(decoded.properties().partitioning.partition_count(), 5);
        let map = decoded.downcast_ref::<MapRanksExec>().unwrap();
        assert_eq!(MapJob::decode(map.message()).unwrap(), job);
    }
}
