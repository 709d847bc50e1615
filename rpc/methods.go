package rpc

// methods are all methods of this server, in the order of the documentation.
var methods = []route{
	block.route(), chunk.route(), congestionLevel.route(), gasPrice.route(),
	query.route(), viewAccount.route(), viewCode.route(), viewState.route(), viewAccessKey.route(),
	viewAccessKeyList.route(),
	viewGasKeyNonces.route(), callFunction.route(),
	changes.route(), blockEffects.route(), changesInBlock.route(), streamerMessage.route(), blockDocument.route(),
	transactionList.route(), accountList.route(), indexerBlock.route(),
	tx.route(), txStatus.route(), experimentalTxStatus.route(), sendTx.route(), broadcastTxAsync.route(),
	broadcastTxCommit.route(), simulateTx.route(), traceTx.route(),
	receipt.route(), receiptToTx.route(), lightClientProof.route(), lightClientBlockProof.route(),
	nextLightClientBlock.route(),
	status.route(), health.route(), networkInfo.route(), validators.route(), validatorsOrdered.route(),
	maintenanceWindows.route(),
	genesisConfig.route(), protocolConfig.route(), clientConfig.route(), splitStorageInfo.route(),
	subscribe.route(), unsubscribe.route(),
	sandboxMine.route(), sandboxPatchState.route(), sandboxFastForward.route(), sandboxNextEpoch.route(),
	sandboxSnapshot.route(), sandboxRevert.route(), sandboxDropSnapshot.route(), sandboxSnapshots.route(),
	sandboxNewWorld.route(), sandboxDropWorld.route(), sandboxWorlds.route(),
	sandboxSetClock.route(), sandboxSetProduction.route(), sandboxDumpState.route(), sandboxLoadState.route(),
	sandboxTag.route(), sandboxTags.route(), sandboxDropTag.route(), sandboxProfile.route(),
	sandboxMockVerification.route(), sandboxMissChunks.route(), sandboxReorg.route(), sandboxDumpTransaction.route(),
	sandboxReplayTransaction.route(),
	sandboxSetBalance.route(), sandboxSetCode.route(), sandboxSetKey.route(), sandboxSetStorage.route(),
	sandboxDeal.route(), sandboxImpersonate.route(), sandboxFork.route(),
}

// byName has the routes by name and alias.
var byName = func() map[string]*route {
	m := map[string]*route{}
	for i := range methods {
		r := &methods[i]
		for _, name := range append([]string{r.name}, r.aliases...) {
			if m[name] != nil {
				panic("rpc: two methods are named " + name)
			}
			m[name] = r
		}
	}
	return m
}()
