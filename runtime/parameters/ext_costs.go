package parameters

import (
	"strconv"
	"strings"
)

// ExtCost names a cost that a contract pays in addition to instructions: for host functions,
// contract loading and trie nodes. The numbers are nearcore's discriminants
// (core/parameters/src/cost.rs:251 ExtCosts).
type ExtCost uint8

// The costs. A cost named Base is paid once per call. Every other cost is paid per unit in the
// cost's name.
const (
	ExtBase ExtCost = iota
	ExtContractLoadingBase
	ExtContractLoadingBytes
	ExtReadMemoryBase
	ExtReadMemoryByte
	ExtWriteMemoryBase
	ExtWriteMemoryByte
	ExtReadRegisterBase
	ExtReadRegisterByte
	ExtWriteRegisterBase
	ExtWriteRegisterByte
	ExtUTF8DecodingBase
	ExtUTF8DecodingByte
	ExtUTF16DecodingBase
	ExtUTF16DecodingByte
	ExtSHA256Base
	ExtSHA256Byte
	ExtKeccak256Base
	ExtKeccak256Byte
	ExtKeccak512Base
	ExtKeccak512Byte
	ExtRipemd160Base
	ExtRipemd160Block
	ExtEcrecoverBase
	ExtLogBase
	ExtLogByte
	ExtStorageWriteBase
	ExtStorageWriteKeyByte
	ExtStorageWriteValueByte
	ExtStorageWriteEvictedByte
	ExtStorageReadBase
	ExtStorageReadKeyByte
	ExtStorageReadValueByte
	ExtStorageRemoveBase
	ExtStorageRemoveKeyByte
	ExtStorageRemoveRetValueByte
	ExtStorageHasKeyBase
	ExtStorageHasKeyByte
	ExtStorageIterCreatePrefixBase
	ExtStorageIterCreatePrefixByte
	ExtStorageIterCreateRangeBase
	ExtStorageIterCreateFromByte
	ExtStorageIterCreateToByte
	ExtStorageIterNextBase
	ExtStorageIterNextKeyByte
	ExtStorageIterNextValueByte
	ExtTouchingTrieNode
	ExtReadCachedTrieNode
	ExtPromiseAndBase
	ExtPromiseAndPerPromise
	ExtPromiseReturn
	ExtValidatorStakeBase
	ExtValidatorTotalStakeBase
	ExtAltBn128G1MultiexpBase
	ExtAltBn128G1MultiexpElement
	ExtAltBn128PairingCheckBase
	ExtAltBn128PairingCheckElement
	ExtAltBn128G1SumBase
	ExtAltBn128G1SumElement
	ExtEd25519VerifyBase
	ExtEd25519VerifyByte
	ExtYieldCreateBase
	ExtYieldCreateByte
	ExtYieldResumeBase
	ExtYieldResumeByte
	ExtBls12381P1SumBase
	ExtBls12381P1SumElement
	ExtBls12381P2SumBase
	ExtBls12381P2SumElement
	ExtBls12381G1MultiexpBase
	ExtBls12381G1MultiexpElement
	ExtBls12381G2MultiexpBase
	ExtBls12381G2MultiexpElement
	ExtBls12381MapFpToG1Base
	ExtBls12381MapFpToG1Element
	ExtBls12381MapFp2ToG2Base
	ExtBls12381MapFp2ToG2Element
	ExtBls12381PairingBase
	ExtBls12381PairingElement
	ExtBls12381P1DecompressBase
	ExtBls12381P1DecompressElement
	ExtBls12381P2DecompressBase
	ExtBls12381P2DecompressElement
	ExtStorageLargeReadOverheadBase
	ExtStorageLargeReadOverheadByte
	ExtP256VerifyBase
	ExtP256VerifyByte
	ExtYieldCreateWithIDBase

	// Costs of functions that version 87 introduces.
	ExtSHA3x256Base
	ExtSHA3x256Byte
	ExtSHA3x384Base
	ExtSHA3x384Byte
	ExtSHA3x512Base
	ExtSHA3x512Byte
	ExtMLDSAVerifyBase
	ExtMLDSAVerifyByte

	// Costs of a function that version 88 introduces.
	ExtUniversalStateInitToAccountIDBase
	ExtUniversalStateInitToAccountIDByte

	// NumExtCosts is the number of ext costs.
	NumExtCosts
)

// extCosts holds nearcore's name of each cost and its value at version 85 (near-parameters 0.38.0
// src/snapshots/…config_store__tests__85.json.snap). Function values applies the changes of the
// versions after 85. compute is set if the compute differs from the gas: such operations turned out
// slower than their gas suggests (res/runtime_configs/parameters.snap).
var extCosts = [NumExtCosts]struct {
	name    string
	gas     uint64
	compute uint64 // compute cost; 0: equal to the gas
}{
	ExtBase:                         {name: "base", gas: 264_768_111},
	ExtContractLoadingBase:          {name: "contract_loading_base", gas: 35_445_963},
	ExtContractLoadingBytes:         {name: "contract_loading_bytes", gas: 1_089_295},
	ExtReadMemoryBase:               {name: "read_memory_base", gas: 2_609_863_200},
	ExtReadMemoryByte:               {name: "read_memory_byte", gas: 3_801_333},
	ExtWriteMemoryBase:              {name: "write_memory_base", gas: 2_803_794_861},
	ExtWriteMemoryByte:              {name: "write_memory_byte", gas: 2_723_772},
	ExtReadRegisterBase:             {name: "read_register_base", gas: 2_517_165_186},
	ExtReadRegisterByte:             {name: "read_register_byte", gas: 98_562},
	ExtWriteRegisterBase:            {name: "write_register_base", gas: 2_865_522_486},
	ExtWriteRegisterByte:            {name: "write_register_byte", gas: 3_801_564},
	ExtUTF8DecodingBase:             {name: "utf8_decoding_base", gas: 3_111_779_061},
	ExtUTF8DecodingByte:             {name: "utf8_decoding_byte", gas: 291_580_479},
	ExtUTF16DecodingBase:            {name: "utf16_decoding_base", gas: 3_543_313_050},
	ExtUTF16DecodingByte:            {name: "utf16_decoding_byte", gas: 163_577_493},
	ExtSHA256Base:                   {name: "sha256_base", gas: 4_540_970_250},
	ExtSHA256Byte:                   {name: "sha256_byte", gas: 24_117_351},
	ExtKeccak256Base:                {name: "keccak256_base", gas: 5_879_491_275},
	ExtKeccak256Byte:                {name: "keccak256_byte", gas: 21_471_105},
	ExtKeccak512Base:                {name: "keccak512_base", gas: 5_811_388_236},
	ExtKeccak512Byte:                {name: "keccak512_byte", gas: 36_649_701},
	ExtRipemd160Base:                {name: "ripemd160_base", gas: 853_675_086},
	ExtRipemd160Block:               {name: "ripemd160_block", gas: 680_107_584},
	ExtEcrecoverBase:                {name: "ecrecover_base", gas: 278_821_988_457},
	ExtLogBase:                      {name: "log_base", gas: 3_543_313_050},
	ExtLogByte:                      {name: "log_byte", gas: 13_198_791},
	ExtStorageWriteBase:             {name: "storage_write_base", gas: 64_196_736_000, compute: 200_000_000_000},
	ExtStorageWriteKeyByte:          {name: "storage_write_key_byte", gas: 70_482_867},
	ExtStorageWriteValueByte:        {name: "storage_write_value_byte", gas: 31_018_539},
	ExtStorageWriteEvictedByte:      {name: "storage_write_evicted_byte", gas: 32_117_307},
	ExtStorageReadBase:              {name: "storage_read_base", gas: 56_356_845_749, compute: 159_000_000_000},
	ExtStorageReadKeyByte:           {name: "storage_read_key_byte", gas: 30_952_533, compute: 10_000_000},
	ExtStorageReadValueByte:         {name: "storage_read_value_byte", gas: 5_611_004, compute: 2_500_000},
	ExtStorageRemoveBase:            {name: "storage_remove_base", gas: 53_473_030_500, compute: 200_000_000_000},
	ExtStorageRemoveKeyByte:         {name: "storage_remove_key_byte", gas: 38_220_384},
	ExtStorageRemoveRetValueByte:    {name: "storage_remove_ret_value_byte", gas: 11_531_556},
	ExtStorageHasKeyBase:            {name: "storage_has_key_base", gas: 54_039_896_625, compute: 158_000_000_000},
	ExtStorageHasKeyByte:            {name: "storage_has_key_byte", gas: 30_790_845, compute: 10_000_000},
	ExtStorageIterCreatePrefixBase:  {name: "storage_iter_create_prefix_base", gas: 0},
	ExtStorageIterCreatePrefixByte:  {name: "storage_iter_create_prefix_byte", gas: 0},
	ExtStorageIterCreateRangeBase:   {name: "storage_iter_create_range_base", gas: 0},
	ExtStorageIterCreateFromByte:    {name: "storage_iter_create_from_byte", gas: 0},
	ExtStorageIterCreateToByte:      {name: "storage_iter_create_to_byte", gas: 0},
	ExtStorageIterNextBase:          {name: "storage_iter_next_base", gas: 0},
	ExtStorageIterNextKeyByte:       {name: "storage_iter_next_key_byte", gas: 0},
	ExtStorageIterNextValueByte:     {name: "storage_iter_next_value_byte", gas: 0},
	ExtTouchingTrieNode:             {name: "touching_trie_node", gas: 2_280_000_000, compute: 4_000_000_000},
	ExtReadCachedTrieNode:           {name: "read_cached_trie_node", gas: 2_280_000_000, compute: 4_000_000_000},
	ExtPromiseAndBase:               {name: "promise_and_base", gas: 1_465_013_400},
	ExtPromiseAndPerPromise:         {name: "promise_and_per_promise", gas: 5_452_176},
	ExtPromiseReturn:                {name: "promise_return", gas: 560_152_386},
	ExtValidatorStakeBase:           {name: "validator_stake_base", gas: 911_834_726_400},
	ExtValidatorTotalStakeBase:      {name: "validator_total_stake_base", gas: 911_834_726_400},
	ExtAltBn128G1MultiexpBase:       {name: "alt_bn128_g1_multiexp_base", gas: 713_000_000_000},
	ExtAltBn128G1MultiexpElement:    {name: "alt_bn128_g1_multiexp_element", gas: 320_000_000_000},
	ExtAltBn128PairingCheckBase:     {name: "alt_bn128_pairing_check_base", gas: 9_686_000_000_000},
	ExtAltBn128PairingCheckElement:  {name: "alt_bn128_pairing_check_element", gas: 5_102_000_000_000},
	ExtAltBn128G1SumBase:            {name: "alt_bn128_g1_sum_base", gas: 3_000_000_000},
	ExtAltBn128G1SumElement:         {name: "alt_bn128_g1_sum_element", gas: 5_000_000_000},
	ExtEd25519VerifyBase:            {name: "ed25519_verify_base", gas: 210_000_000_000},
	ExtEd25519VerifyByte:            {name: "ed25519_verify_byte", gas: 9_000_000},
	ExtYieldCreateBase:              {name: "yield_create_base", gas: 153_411_779_276},
	ExtYieldCreateByte:              {name: "yield_create_byte", gas: 15_643_988},
	ExtYieldResumeBase:              {name: "yield_resume_base", gas: 1_195_627_285_210},
	ExtYieldResumeByte:              {name: "yield_resume_byte", gas: 47_683_715},
	ExtBls12381P1SumBase:            {name: "bls12381_p1_sum_base", gas: 16_500_000_000},
	ExtBls12381P1SumElement:         {name: "bls12381_p1_sum_element", gas: 6_000_000_000},
	ExtBls12381P2SumBase:            {name: "bls12381_p2_sum_base", gas: 18_600_000_000},
	ExtBls12381P2SumElement:         {name: "bls12381_p2_sum_element", gas: 15_000_000_000},
	ExtBls12381G1MultiexpBase:       {name: "bls12381_g1_multiexp_base", gas: 16_500_000_000},
	ExtBls12381G1MultiexpElement:    {name: "bls12381_g1_multiexp_element", gas: 930_000_000_000},
	ExtBls12381G2MultiexpBase:       {name: "bls12381_g2_multiexp_base", gas: 18_600_000_000},
	ExtBls12381G2MultiexpElement:    {name: "bls12381_g2_multiexp_element", gas: 1_995_000_000_000},
	ExtBls12381MapFpToG1Base:        {name: "bls12381_map_fp_to_g1_base", gas: 1_500_000_000},
	ExtBls12381MapFpToG1Element:     {name: "bls12381_map_fp_to_g1_element", gas: 252_000_000_000},
	ExtBls12381MapFp2ToG2Base:       {name: "bls12381_map_fp2_to_g2_base", gas: 1_500_000_000},
	ExtBls12381MapFp2ToG2Element:    {name: "bls12381_map_fp2_to_g2_element", gas: 900_000_000_000},
	ExtBls12381PairingBase:          {name: "bls12381_pairing_base", gas: 2_130_000_000_000},
	ExtBls12381PairingElement:       {name: "bls12381_pairing_element", gas: 2_130_000_000_000},
	ExtBls12381P1DecompressBase:     {name: "bls12381_p1_decompress_base", gas: 15_000_000_000},
	ExtBls12381P1DecompressElement:  {name: "bls12381_p1_decompress_element", gas: 81_000_000_000},
	ExtBls12381P2DecompressBase:     {name: "bls12381_p2_decompress_base", gas: 15_000_000_000},
	ExtBls12381P2DecompressElement:  {name: "bls12381_p2_decompress_element", gas: 165_000_000_000},
	ExtStorageLargeReadOverheadBase: {name: "storage_large_read_overhead_base", gas: 1, compute: 41_000_000_000},
	ExtStorageLargeReadOverheadByte: {name: "storage_large_read_overhead_byte", gas: 1, compute: 3_111_005},
	ExtP256VerifyBase:               {name: "p256_verify_base", gas: 1_300_000_000_000},
	ExtP256VerifyByte:               {name: "p256_verify_byte", gas: 13_000_000},
	ExtYieldCreateWithIDBase:        {name: "yield_create_with_id_base", gas: 290_000_000_000},
	ExtSHA3x256Base:                 {name: "sha3_256_base", gas: 5_879_491_275},
	ExtSHA3x256Byte:                 {name: "sha3_256_byte", gas: 21_471_105},
	ExtSHA3x384Base:                 {name: "sha3_384_base", gas: 5_811_388_236},
	ExtSHA3x384Byte:                 {name: "sha3_384_byte", gas: 36_649_701},
	ExtSHA3x512Base:                 {name: "sha3_512_base", gas: 5_811_388_236},
	ExtSHA3x512Byte:                 {name: "sha3_512_byte", gas: 36_649_701},
	ExtMLDSAVerifyBase:              {name: "ml_dsa_verify_base", gas: 540_000_000_000},
	ExtMLDSAVerifyByte:              {name: "ml_dsa_verify_byte", gas: 11_000_000},

	ExtUniversalStateInitToAccountIDBase: {name: "universal_state_init_to_account_id_base", gas: 8_520_000_000},
	ExtUniversalStateInitToAccountIDByte: {name: "universal_state_init_to_account_id_byte", gas: 21_471_105},
}

// firstReleaseExtCost is the first cost that the June build of nearcore does not have (see June).
const firstReleaseExtCost = ExtSHA3x256Base

// String returns nearcore's name, e.g. "storage_read_base", which is the key in ext_costs of
// protocol configurations.
func (c ExtCost) String() string {
	if c >= NumExtCosts {
		return "ExtCost(" + strconv.Itoa(int(c)) + ")"
	}
	return extCosts[c].name
}

// extProfileNames are the names of the ext costs in upper case, computed once, because every
// receipt with a contract call uses them.
var extProfileNames = func() (names [NumExtCosts]string) {
	for c := range names {
		names[c] = strings.ToUpper(extCosts[c].name)
	}
	return names
}()

// ProfileName returns the name of c in gas profiles, e.g. "STORAGE_READ_BASE". c must be below
// NumExtCosts.
func (c ExtCost) ProfileName() string { return extProfileNames[c] }
