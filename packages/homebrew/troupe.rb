# Formula of Homebrew, on Linux and macOS: builds Troupe from source.
# A tap has it as Formula/troupe.rb; packages/README.md says what changes in it with a release.
class Troupe < Formula
  desc "NEAR protocol node, and a sandbox for tests"
  homepage "https://github.com/troupe-chain/troupe"
  url "https://github.com/troupe-chain/troupe.git",
      tag: "v0.1.0"
  license any_of: ["MIT", "Apache-2.0"]
  head "https://github.com/troupe-chain/troupe.git", branch: "main"

  depends_on "go" => :build

  def install
    ENV["CGO_ENABLED"] = "1" # wasmtime is linked into it
    ldflags = "-s -w -X main.version=#{version} -X main.commit=#{Utils.git_head}"
    system "go", "build", *std_go_args(ldflags: ldflags), "./cmd/troupe"
    generate_completions_from_executable(bin/"troupe", "completion")
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/troupe version")
    system bin/"troupe", "--home", testpath/"chain", "init", "--chain-id", "sandbox"
    assert_path_exists testpath/"chain/genesis.json"
  end
end
