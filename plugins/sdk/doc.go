// Package sdk is all that the author of a plugin imports. A router says what
// becomes of messages:
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
// A serializer reads and writes payloads of the content types that it names;
// Plugin.Decode and Plugin.Encode say how. One plugin may be both.
//
// The gateway starts the program, asks it many things at once, and restarts it
// when it ends or does not answer in time. Everything but Serve is called
// concurrently. What is logged with log/slog or log, or printed, goes to the
// gateway's log.
package sdk
