package wire

import (
	"maps"
	"slices"
)

// variants are neard's names of the messages in logs and metrics: the variants of PeerMessage
// (nearcore chain/network/src/network_protocol/mod.rs msg_variant).
var variants = map[Kind]string{
	KindTier1Handshake: "Tier1Handshake", KindTier2Handshake: "Tier2Handshake", KindTier3Handshake: "Tier3Handshake",
	KindHandshakeFailure: "HandshakeFailure", KindLastEdge: "LastEdge", KindRoutingTable: "SyncRoutingTable",
	KindNonceRequest: "RequestUpdateNonce", KindAccountsData: "SyncAccountsData", KindPeersRequest: "PeersRequest",
	KindPeersResponse: "PeersResponse", KindHeadersRequest: "BlockHeadersRequest", KindHeaders: "BlockHeaders",
	KindBlockRequest: "BlockRequest", KindBlock: "Block", KindOptimisticBlock: "OptimisticBlock", KindTransaction: "Transaction",
	KindDisconnect: "Disconnect", KindChallenge: "Challenge", KindSnapshotHosts: "SyncSnapshotHosts",
	KindStateHeaderRequest: "StateRequestHeader", KindStatePartRequest: "StateRequestPart", KindStateResponse: "VersionedStateResponse",
	KindEpochSyncRequest: "EpochSyncRequest", KindEpochSyncResponse: "EpochSyncResponse",
}

// Variant returns neard's name of a message. The name of a routed message is that of its body.
func Variant(m Message) string {
	if r, ok := m.(*Routed); ok {
		return r.Body.BodyKind().String()
	}
	return variants[m.Kind()]
}

// Variants returns the names of all messages, sorted.
func Variants() []string {
	out := slices.Collect(maps.Values(variants))
	for _, b := range bodies {
		out = append(out, b.name)
	}
	slices.Sort(out)
	return out
}
