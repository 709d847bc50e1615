// Package txtext formats transactions, amounts and untrusted text for terminals.
//
//	in      JSON of EXPERIMENTAL_tx_status; yoctoNEAR; gas; text that a contract or a node chose
//	out     lines without control characters, bounded in length
//	state   none; all functions are safe for concurrent use
//	units   amounts are shown and read in NEAR (10^24 yoctoNEAR), gas in Tgas (10^12 gas)
//	errors  JSON that is no transaction status; texts that are no amount
//	source  near-primitives 0.38.0 src/views.rs (FinalExecutionOutcomeWithReceiptView, ActionView)
package txtext
