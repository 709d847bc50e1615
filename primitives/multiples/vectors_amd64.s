//go:build amd64 && !purego && !force32bit

// Nothing: that it is here lets vectors_amd64.go declare functions that are elsewhere.
