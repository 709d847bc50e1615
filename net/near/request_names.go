package near

import (
	"maps"
	"slices"

	"github.com/troupe-chain/troupe/net/wire"
)

// Names of requests to the network (nearcore chain/network/src/types.rs NetworkRequests). Messages that
// neard's peer actor sends by itself, such as answers to requests of blocks, have no name.
var (
	directRequests = map[wire.Kind]string{
		wire.KindBlockRequest: "BlockRequest", wire.KindHeadersRequest: "BlockHeadersRequest",
		wire.KindStateHeaderRequest: stateHeaderRequest, wire.KindStatePartRequest: statePartRequest,
		wire.KindEpochSyncRequest: "EpochSyncRequest", wire.KindEpochSyncResponse: "EpochSyncResponse",
	}
	routedRequests = map[wire.BodyKind]string{
		wire.BodyBlockApproval: "Approval", wire.BodyPartialChunk: "PartialEncodedChunkMessage",
		wire.BodyChunkForward: "PartialEncodedChunkForward", wire.BodyPartialWitness: witnessRequest,
		wire.BodyVersionedWitness: witnessRequest, wire.BodyPartialWitnessForward: witnessForwardRequest,
		wire.BodyVersionedForward: witnessForwardRequest, wire.BodyChunkEndorsement: "ChunkEndorsement",
		wire.BodyContractAccesses: "ChunkContractAccesses", wire.BodyContractCodeRequest: "ContractCodeRequest",
		wire.BodyContractCodeResponse: "ContractCodeResponse", wire.BodyForwardTx: "ForwardTx",
		wire.BodyTxStatusRequest: "TxStatus", wire.BodyChunkRequest: "PartialEncodedChunkRequest",
		wire.BodyChunkResponse: "PartialEncodedChunkResponse", wire.BodyWitnessAck: "ChunkStateWitnessAck",
		wire.BodyContractDeploys: "PartialEncodedContractDeploys", wire.BodyStateRequestAck: stateAckRequest,
		wire.BodyStateHeaderRequest: stateHeaderRequest, wire.BodyStatePartRequest: statePartRequest,
	}
)

const (
	blockRequest           = "Block"
	optimisticBlockRequest = "OptimisticBlock"
	stateHeaderRequest     = "StateRequestHeader"
	statePartRequest       = "StateRequestPart"
	stateAckRequest        = "StateRequestAck"
	banRequest             = "BanPeer"
	announceRequest        = "AnnounceAccount"
	snapshotRequest        = "SnapshotHostEvent"
	witnessRequest         = "PartialEncodedStateWitness"
	witnessForwardRequest  = "PartialEncodedStateWitnessForward"
)

// requestNames returns all names; some come twice.
func requestNames() []string {
	out := []string{blockRequest, optimisticBlockRequest, stateHeaderRequest, statePartRequest, stateAckRequest, banRequest,
		announceRequest, snapshotRequest}
	out = slices.AppendSeq(out, maps.Values(directRequests))
	return slices.AppendSeq(out, maps.Values(routedRequests))
}

// requestName returns the name of the request that an event is; "" for none.
func requestName(ev Event) string {
	switch ev := ev.(type) {
	case ToPeer:
		return directRequests[ev.Msg.Kind()]
	case ToAll:
		if ev.Msg.Kind() == wire.KindBlock {
			return blockRequest
		}
	case OptimisticTo:
		return optimisticBlockRequest
	case RouteTo:
		return routedRequests[ev.Body.BodyKind()]
	case RouteToAccount:
		return routedRequests[ev.Body.BodyKind()]
	case AskState:
		if ev.IsHeader {
			return stateHeaderRequest
		}
		return statePartRequest
	case AnswerState:
		return stateAckRequest
	case AnnouncementsVerified:
		if ev.From == "" && len(ev.Good) > 0 {
			return announceRequest
		}
	case Snapshot:
		return snapshotRequest
	case Ban:
		return banRequest
	}
	return ""
}
