document.getElementById("app").textContent = "Crosstown";
