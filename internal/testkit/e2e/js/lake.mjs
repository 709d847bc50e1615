// near-lake-framework, unmodified: it reads a bucket that the node has filled, block after block.
import lake from "near-lake-framework";

const { S3_ENDPOINT, S3_BUCKET, BLOCKS } = process.env;
const want = Number(BLOCKS);
let last, blocks = 0, transactions = 0;
const fail = (text) => {
  console.error(text);
  process.exit(1);
};
await lake.startStream(
  { credentials: { accessKeyId: "k", secretAccessKey: "s" }, s3Endpoint: S3_ENDPOINT, s3ForcePathStyle: true, s3BucketName: S3_BUCKET, s3RegionName: "us-east-1", startBlockHeight: 0, blocksPreloadPoolSize: 10 },
  async (m) => {
    const { header, chunks } = m.block;
    if (last && header.prevHash !== last.hash) fail(`block ${header.height} follows ${header.prevHash}, the one before was ${last.hash}`);
    if (m.shards.length !== chunks.length) fail(`block ${header.height} has ${m.shards.length} shards of ${chunks.length}`);
    const ids = (list) => list.map((x) => x.shardId).sort().join(); // the framework asks for 0 to n-1, whatever the layout's order
    if (ids(m.shards) !== ids(chunks)) fail(`block ${header.height}: shards ${ids(m.shards)} where ${ids(chunks)} belong`);
    for (const s of m.shards) transactions += s.chunk?.transactions.length ?? 0;
    last = header;
    if (++blocks < want) return;
    if (transactions === 0) fail("there was no transaction in any block");
    console.log(`${blocks} blocks up to ${header.height}, ${transactions} transactions`);
    process.exit(0);
  },
);
