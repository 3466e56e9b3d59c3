import { Crosstown } from "../crosstown.js";

const bus = new Crosstown("https://gate.example", { token: "t" });
for await (const m of bus.receive("orders", { mode: "receiveAndDelete" })) await m.complete(); // nothing is locked
