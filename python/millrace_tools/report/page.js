// Buttons that save the data in the page.
"use strict";
for (const button of document.querySelectorAll("button[data-save]")) {
  button.addEventListener("click", () => {
    const name = button.dataset.save;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([document.getElementById(name).textContent], { type: "application/json" }));
    link.download = `${name}.json`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
}
