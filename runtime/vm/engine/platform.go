//go:build !cgo || !(linux || darwin) || !(amd64 || arm64)

package engine

// The wasmtime library exists only for these platforms and needs cgo. On other platforms, with
// CGO_ENABLED=0, or without a C compiler, the build stops with this single error.
var _ = troupe_needs_cgo_with_a_C_compiler_on_linux_or_macos_amd64_or_arm64
