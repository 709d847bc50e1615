package wire

// Layouts of network.proto. All wrappers whose single field is `bytes borsh = 1` or `bytes hash =
// 1` share `wrapped`.
var (
	wrapped   = &schema{"Wrapped", []field{{1, bytesKind, nil}}}
	timestamp = &schema{"Timestamp", []field{{1, uint64Kind, nil}, {2, int32Kind, nil}}}

	ownedAccount = &schema{"OwnedAccount", []field{{1, messageKind, wrapped}, {2, messageKind, wrapped}, {3, messageKind, timestamp}}}
	socketAddr   = &schema{"SocketAddr", []field{{1, bytesKind, nil}, {2, uint32Kind, nil}}}
	peerAddr     = &schema{"PeerAddr", []field{{1, messageKind, socketAddr}, {2, messageKind, wrapped}}}
	accountData  = &schema{"AccountData", []field{
		{5, messageKind, wrapped}, {6, messageKind, wrapped}, {2, messageKind, peerAddr}, {7, uint64Kind, nil},
		{4, messageKind, timestamp}, {holdsField, bytesKind, nil}}}
	accountKeyPayload       = &schema{"AccountKeyPayload", []field{{2, messageKind, accountData}, {3, messageKind, ownedAccount}}}
	accountKeySignedPayload = &schema{"AccountKeySignedPayload", []field{{1, bytesKind, nil}, {2, messageKind, wrapped}}}

	genesisID     = &schema{"GenesisId", []field{{1, stringKind, nil}, {2, messageKind, wrapped}}}
	peerChainInfo = &schema{"PeerChainInfo", []field{{1, messageKind, genesisID}, {2, uint64Kind, nil},
		{3, uint64sKind, nil}, {4, boolKind, nil}}}
	handshake = &schema{"Handshake", []field{{1, uint32Kind, nil}, {2, uint32Kind, nil}, {3, messageKind, wrapped}, {4, messageKind, wrapped},
		{5, uint32Kind, nil}, {6, messageKind, peerChainInfo}, {7, messageKind, wrapped}, {8, messageKind, accountKeySignedPayload}}}
	handshakeFailure = &schema{"HandshakeFailure", []field{{1, int32Kind, nil}, {2, messageKind, wrapped}, {3, messageKind, genesisID},
		{4, uint32Kind, nil}, {5, uint32Kind, nil}}}

	// oneMessage is for messages with a single field, a message that may be repeated: LastEdge,
	// UpdateNonce..., Block..., StateResponse.
	oneMessage   = &schema{"One", []field{{1, messageKind, wrapped}}}
	twoMessages  = &schema{"Two", []field{{1, messageKind, wrapped}, {2, messageKind, wrapped}}}
	accountsData = &schema{"SyncAccountsData", []field{{1, messageKind, accountKeySignedPayload}, {2, boolKind, nil}, {3, boolKind, nil}}}
	peersRequest = &schema{"PeersRequest", []field{{1, uint32Kind, nil}, {2, uint32Kind, nil}}}
	routed       = &schema{"RoutedMessage", []field{{1, bytesKind, nil}, {2, messageKind, timestamp}, {4, uint32Kind, nil}}}
	peerIDOrHash = &schema{"PeerIdOrHash", []field{{1, messageKind, wrapped}, {2, messageKind, wrapped}}}
	routedV3     = &schema{"RoutedMessageV3", []field{{1, messageKind, peerIDOrHash}, {2, messageKind, wrapped}, {3, uint32Kind, nil},
		{4, bytesKind, nil}, {5, messageKind, wrapped}, {6, uint64Kind, nil}, {7, uint32Kind, nil}}}
	disconnect       = &schema{"Disconnect", []field{{1, boolKind, nil}}}
	stateHeader      = &schema{"StateRequestHeader", []field{{1, uint64Kind, nil}, {2, messageKind, wrapped}}}
	statePart        = &schema{"StateRequestPart", []field{{1, uint64Kind, nil}, {2, messageKind, wrapped}, {3, uint64Kind, nil}}}
	snapshotHostInfo = &schema{"SnapshotHostInfo", []field{{1, messageKind, wrapped}, {2, messageKind, wrapped}, {3, uint64Kind, nil},
		{4, uint64sKind, nil}, {5, messageKind, wrapped}}}
	snapshotHosts   = &schema{"SyncSnapshotHosts", []field{{1, messageKind, snapshotHostInfo}}}
	nothing         = &schema{"EpochSyncRequest", nil}
	optimisticBlock = &schema{"OptimisticBlock", []field{{1, bytesKind, nil}, {2, messageKind, wrapped}, {3, messageKind, wrapped}}}
	traceContext    = &schema{"TraceContext", []field{{1, bytesKind, nil}, {2, bytesKind, nil}, {3, int32Kind, nil}}}

	peerMessage = &schema{"PeerMessage", []field{
		{uint32(KindRouted), messageKind, routed}, // listed first, because most frames contain this kind
		{uint32(KindTier1Handshake), messageKind, handshake}, {uint32(KindTier2Handshake), messageKind, handshake},
		{uint32(KindTier3Handshake), messageKind, handshake}, {uint32(KindHandshakeFailure), messageKind, handshakeFailure},
		{uint32(KindLastEdge), messageKind, oneMessage}, {uint32(KindRoutingTable), messageKind, twoMessages},
		{uint32(KindNonceRequest), messageKind, oneMessage}, {uint32(KindNonceResponse), messageKind, oneMessage},
		{uint32(KindAccountsData), messageKind, accountsData}, {uint32(KindPeersRequest), messageKind, peersRequest},
		{uint32(KindPeersResponse), messageKind, twoMessages}, {uint32(KindHeadersRequest), messageKind, oneMessage},
		{uint32(KindHeaders), messageKind, oneMessage}, {uint32(KindBlockRequest), messageKind, oneMessage},
		{uint32(KindBlock), messageKind, oneMessage}, {uint32(KindTransaction), messageKind, wrapped},
		{uint32(KindDisconnect), messageKind, disconnect}, {uint32(KindChallenge), messageKind, wrapped},
		{uint32(KindStateHeaderRequest), messageKind, stateHeader}, {uint32(KindStatePartRequest), messageKind, statePart},
		{uint32(KindStateResponse), messageKind, oneMessage}, {uint32(KindSnapshotHosts), messageKind, snapshotHosts},
		{uint32(KindEpochSyncRequest), messageKind, nothing}, {uint32(KindEpochSyncResponse), messageKind, wrapped},
		{uint32(KindOptimisticBlock), messageKind, optimisticBlock}, {uint32(KindRoutedV3), messageKind, routedV3},
		{traceField, messageKind, traceContext}}}
)

// traceField is trace_context of PeerMessage, which is ignored.
const traceField = 26
