package action

import "github.com/troupe-chain/troupe/primitives"

// Hashes of the wallet contract of ETH-implicit accounts (nearcore runtime/near-wallet-contract).
// New accounts reference a global contract. Accounts created before that have a short local code:
// "near" followed by the wallet's hash in base58. A call of such a code runs the chain's global
// wallet contract.
var (
	walletMainnet  = mustHash("2zodJZK2e4nnv5AqwCRnenNSmkikXhEd7PPY6BmfTmW4")
	walletTestnet  = mustHash("3PpYvRxBfC5BkZxTw8ZFG3D52w1ZRhvDDWirKoxphMDn")
	walletLocalnet = mustHash("FAq9tQRbwJPTV3PQLn2F7AUD3FW2Fw1V8ZeZuazfeu1v")

	// legacyWallets are the hashes of the short local codes of mainnet, testnet, testnet before
	// protocol version 71, and all other chains, in this order.
	legacyWallets = [...]primitives.Hash{
		shortWallet("5j8XPMMKMn5cojVs4qQ65dViGtgMHgrfNtJgrC18X8Qw"),
		shortWallet("BL1PtbXR6CeP39LXZTVfTNap2dxruEdaWZVxptW6NufU"),
		shortWallet("3Za8tfLX6nKa2k4u2Aq5CRrM7EmTVSL9EERxymfnSFKd"),
		shortWallet("FAq9tQRbwJPTV3PQLn2F7AUD3FW2Fw1V8ZeZuazfeu1v"),
	}
)

func mustHash(text string) primitives.Hash {
	h, err := primitives.ParseHash(text)
	if err != nil {
		panic("action: " + err.Error())
	}
	return h
}

// shortWallet returns the hash of the short code that stands for a wallet.
func shortWallet(wallet string) primitives.Hash {
	return primitives.HashBytes([]byte("near" + mustHash(wallet).String()))
}

// EthWalletHash returns the hash of the global contract that ETH-implicit accounts of a chain run
// (nearcore near-wallet-contract/src/lib.rs eth_wallet_global_contract_hash).
func EthWalletHash(chainID string) primitives.Hash {
	switch chainID {
	case "mainnet", "mocknet":
		return walletMainnet
	case "testnet":
		return walletTestnet
	}
	return walletLocalnet
}

// isLegacyWallet returns whether the hash is the hash of a short code.
func isLegacyWallet(h primitives.Hash) bool {
	for i := range legacyWallets {
		if legacyWallets[i] == h {
			return true
		}
	}
	return false
}

// GlobalCodeOf returns the global contract that an account runs. ok is false if the account runs
// its own code or no code.
func GlobalCodeOf(chainID string, id primitives.AccountID, c *primitives.AccountContract) (global primitives.GlobalContractID, ok bool) {
	if c.Kind == primitives.ContractLocal && id.Kind(false) == primitives.EthImplicitAccount && isLegacyWallet(c.Hash) {
		return primitives.GlobalContractID{Hash: EthWalletHash(chainID)}, true
	}
	return c.GlobalID()
}
