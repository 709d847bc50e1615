package trie

import "syscall"

// adviseHuge asks for large pages under b. It is a hint: where the system refuses, walks are slower.
func adviseHuge(b []byte) {
	_ = syscall.Madvise(b, syscall.MADV_HUGEPAGE)
}
