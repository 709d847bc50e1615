package engine

// SetMainnetGenesis makes the engine accept another genesis for mainnet. It returns a function that
// undoes this.
func SetMainnetGenesis(hash string) (undo func()) {
	old := publicGenesis["mainnet"]
	publicGenesis["mainnet"] = hash
	return func() { publicGenesis["mainnet"] = old }
}
