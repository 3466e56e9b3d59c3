// Package sdk is the only package that the author of a plugin must import. A plugin is a router, a
// serializer or both. A router decides what happens to messages:
//
//	func main() {
//		sdk.Serve(sdk.Plugin{
//			Name: "stamp",
//			OnSend: func(ctx context.Context, m *sdk.Message) (sdk.Verdict, error) {
//				m.Properties["stamped-by"] = "stamp"
//				return sdk.Accept, nil
//			},
//		})
//	}
//
// A serializer reads and writes payloads of the content types that it names, with Plugin.Decode and
// Plugin.Encode.
//
// The gateway starts the program, sends it many requests concurrently, and restarts it when it ends
// or does not answer in time. The package calls the functions of the Plugin concurrently. Text that
// the program prints, or logs with log/slog or log, goes to the gateway's log.
package sdk
